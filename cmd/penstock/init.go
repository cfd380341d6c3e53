package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

func newInitCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "init [PATH]",
		Short: "Write a commented starter configuration",
		Long: "Write a commented starter configuration to PATH (default " + defaultConfigFile + "). An existing file is never overwritten.\n" +
			"With --from, the servers of a client's JSON (`mcpServers`) are taken over; secrets stay out of the file.",
		Args: asUsage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := defaultConfigFile
			if len(args) == 1 {
				path = args[0]
			}
			return initialize(cmd, path, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "a client's JSON with mcpServers to take over")
	return cmd
}

func initialize(cmd *cobra.Command, path, from string) error {
	taken := starterUpstreams
	var notes []string
	if from != "" {
		data, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("cannot read the client's file: %w", err)
		}
		imported, err := importServers(data)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		taken, notes = imported.upstreams, imported.notes
	}
	if err := writeNew(path, starterHead+taken+starterTail); err != nil {
		return err
	}
	for _, note := range notes {
		cmd.PrintErrln(note)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; check it with `penstock validate --config %s`\n", path, path)
	return err
}

// writeNew creates a file and leaves an existing one alone.
func writeNew(path, text string) (err error) {
	// 0600: whoever edits the file may write a secret into it.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already and is left as it is; name another path", path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the document: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(text)
	return err
}

const starterHead = `# Penstock: one MCP endpoint in front of many MCP servers.
# Check this file with ` + "`penstock validate`" + `; ` + "`penstock schema`" + ` prints its JSON Schema.
# In string values ${NAME} is taken from the environment, ${NAME:-default} with a default.
# What follows a # without a space between is a setting to uncomment.

# Only this machine can reach a loopback address. Another address needs auth, or
# allow_anonymous: true.
listen: 127.0.0.1:8080

# The MCP servers behind the gateway, by key. A tool "search" of the upstream "docs"
# is offered as "docs__search".
`

const starterUpstreams = `upstreams:
  example:
    # Streamable HTTP endpoint of the server: edit this.
    url: http://127.0.0.1:3001/mcp
    # What the gateway shows to it; keep secrets in the environment.
    #credentials:
    #  bearer: ${EXAMPLE_TOKEN}
    #headers: {X-Team: platform}
    #timeout: 30s
  # A server that runs as a child process and speaks stdio; there is no shell.
  #files:
  #  command: [npx, -y, "@modelcontextprotocol/server-filesystem", /srv]
  #  env: {LOG: info}
`

const starterTail = `
# Virtual servers: endpoints with their own upstreams and names. Without any there is
# one named "default" at /mcp with every upstream.
#servers:
#  default:
#    path: /mcp
#    naming: namespaced          # namespaced | prefixed | passthrough (exactly one upstream)
#    expose:
#      tools: {deny: ["*delete*"]}

# Who may call: holders of API keys ("penstock key new" makes one and its hash), or of
# tokens of an identity provider.
#auth:
#  api_keys:
#    - {name: alice, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000001", subject: alice, scopes: [read]}

# What they may call. Without a policy everything; with one, what a rule allows.
#policy:
#  - id: readers
#    who: {scopes: [read]}
#    allow: {tools: ["example__get_*"]}

# A record of every request; "penstock audit verify" checks it.
#audit: {file: audit.jsonl}

# Metrics, and health with details of each upstream, on an address of its own.
#observe:
#  listen: 127.0.0.1:9090
`
