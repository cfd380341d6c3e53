package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/config"
)

// clientServer is one entry of `mcpServers` in a client's file.
type clientServer struct {
	Type      string            `json:"type"`
	Transport string            `json:"transport"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	Dir       string            `json:"cwd"`
}

// importedServers is what was taken over: the text of `upstreams`, and what the
// operator has to know or do.
type importedServers struct {
	upstreams string
	notes     []string
}

// importer writes the upstreams and keeps keys and variables apart.
type importer struct {
	text  strings.Builder
	notes []string
	keys  map[string]bool
	vars  map[string]bool // names of variables that were given out
	live  int
}

func importServers(data []byte) (importedServers, error) {
	var file struct {
		Servers map[string]clientServer `json:"mcpServers"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &file); err != nil {
		// The error of the decoder quotes the input, which may hold secrets.
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			return importedServers{}, fmt.Errorf("is not JSON (at byte %d)", syntax.ByteOffset)
		}
		return importedServers{}, errors.New("does not have the form of a client's file: an object with mcpServers")
	}
	if len(file.Servers) == 0 {
		return importedServers{}, errors.New("holds no mcpServers")
	}
	im := &importer{keys: map[string]bool{}, vars: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		im.server(name, file.Servers[name])
	}
	head := "upstreams:\n"
	if im.live == 0 {
		head = "upstreams: {}\n"
	}
	return importedServers{head + im.text.String(), im.notes}, nil
}

func (im *importer) server(name string, s clientServer) {
	kind := s.Type
	if kind == "" {
		kind = s.Transport
	}
	switch {
	case s.Command != "":
		im.local(name, s)
	case s.URL == "":
		im.skip(name, "it has neither url nor command", "")
	case !slices.Contains([]string{"", "http", "streamable-http", "streamableHttp", "streamable_http"}, kind):
		im.skip(name, fmt.Sprintf("the transport %q is not supported, only streamable HTTP", kind), "")
	default:
		im.remote(name, s)
	}
}

func (im *importer) skip(name, reason, detail string) {
	fmt.Fprintf(&im.text, "  # %s: %s\n", quote(name), reason)
	if detail != "" {
		fmt.Fprintf(&im.text, "  #   %s\n", detail)
	}
	im.note("%s is not taken over: %s", quote(name), reason)
}

func (im *importer) note(format string, args ...any) {
	im.notes = append(im.notes, fmt.Sprintf(format, args...))
}

func (im *importer) remote(name string, s clientServer) {
	reference := wholeReference.MatchString(s.URL)
	if !reference && !config.ValidURL(s.URL) {
		im.skip(name, "its url is not an absolute http or https URL without user name and fragment", "")
		return
	}
	key := im.key(name)
	im.live++
	fmt.Fprintf(&im.text, "  %s:\n", quote(key))
	if strings.Contains(s.URL, "?") {
		// Servers that expect a key in the query are common, and none can be told apart.
		fmt.Fprintf(&im.text, "    url: %s\n", quote("${"+im.variable(key, "URL", "the url, its query included")+"}"))
	} else {
		fmt.Fprintf(&im.text, "    url: %s\n", quote(kept(s.URL)))
	}
	im.headers(key, s.Headers)
}

// local takes over a server that the client ran itself.
func (im *importer) local(name string, s clientServer) {
	if s.URL != "" {
		im.skip(name, "it has both url and command", "")
		return
	}
	key := im.key(name)
	im.live++
	fmt.Fprintf(&im.text, "  %s:\n    command: [%s]\n", quote(key), strings.Join(im.argv(key, s), ", "))
	if s.Dir != "" {
		fmt.Fprintf(&im.text, "    dir: %s\n", quote(kept(s.Dir)))
	}
	if len(s.Env) == 0 {
		return
	}
	im.text.WriteString("    env:\n")
	for _, variable := range slices.Sorted(maps.Keys(s.Env)) {
		value := quote(kept(s.Env[variable]))
		if config.LooksSecret(variable) || looksLikeToken(s.Env[variable]) {
			value = im.secret(key, variable, s.Env[variable], "the variable "+quote(variable))
		}
		fmt.Fprintf(&im.text, "      %s: %s\n", quote(variable), value)
	}
}

// argv is a command as items of a list, without what looks like a secret among
// its arguments.
func (im *importer) argv(key string, s clientServer) []string {
	out := []string{quote(kept(s.Command))}
	before := ""
	for _, arg := range s.Args {
		name, value, assigned := strings.Cut(arg, "=")
		switch {
		case assigned && config.LooksSecret(name):
			part := im.secret(key, name, value, "what follows "+quote(name+"="))
			out = append(out, quote(kept(name) + "=")[:len(quote(kept(name)+"="))-1]+part[1:])
		case config.LooksSecret(before) && strings.HasPrefix(before, "-") && !strings.HasPrefix(arg, "-"):
			out = append(out, im.secret(key, before, arg, "the argument behind "+quote(before)))
		case looksLikeToken(arg):
			out = append(out, im.secret(key, "ARGUMENT", arg, "the argument that looks like a token"))
		default:
			out = append(out, quote(kept(arg)))
		}
		before = arg
	}
	return out
}

func looksLikeToken(text string) bool {
	return longToken.MatchString(text) && strings.ContainsAny(text, "0123456789") && !strings.ContainsAny(text, "@./ ")
}

func (im *importer) headers(key string, headers map[string]string) {
	var plain []string
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		lower := strings.ToLower(name)
		if seen[lower] {
			im.note("%s: the header %s is there twice; one is left out", key, quote(name))
			continue
		}
		seen[lower] = true
		scheme, token, _ := strings.Cut(value, " ")
		switch {
		case lower == "authorization" && strings.EqualFold(scheme, "Bearer"):
			fmt.Fprintf(&im.text, "    credentials:\n      bearer: %s\n", im.secret(key, "TOKEN", strings.TrimSpace(token), "the bearer token"))
		case lower == "authorization":
			fmt.Fprintf(&im.text, "    credentials:\n      header: {name: Authorization, value: %s}\n", im.secret(key, "AUTHORIZATION", value, "the Authorization header"))
		case config.ReservedHeader(name):
			im.note("%s: the header %s is left out: the gateway sets it itself", key, quote(name))
		case !headerName.MatchString(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			im.note("%s: the header %s is left out: it is not one that HTTP can carry", key, quote(name))
		case config.LooksSecret(name):
			plain = append(plain, quote(name)+": "+im.secret(key, name, value, "the header "+quote(name)))
		default:
			plain = append(plain, quote(name)+": "+quote(kept(value)))
		}
	}
	if len(plain) > 0 {
		fmt.Fprintf(&im.text, "    headers:\n      %s\n", strings.Join(plain, "\n      "))
	}
}

var (
	headerName     = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	wholeReference = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)
	anyReference   = regexp.MustCompile(`\$\{(?:[A-Za-z_][A-Za-z0-9_]*(?:\}|:-))?`)
	notInKey       = regexp.MustCompile(`[^A-Za-z0-9.-]+|_+`)
	notInVariable  = regexp.MustCompile(`[^A-Z0-9]+`)
	longToken      = regexp.MustCompile(`[A-Za-z0-9_/+=-]{20,}`)
)

// secret is what stands in the document for a secret: the client's own reference to
// a variable, or a new variable that the operator is told to set.
func (im *importer) secret(key, part, value, what string) string {
	if wholeReference.MatchString(value) {
		return quote(value)
	}
	return quote("${" + im.variable(key, part, what) + "}")
}

// variable gives out a name that no other secret has, and tells what to set it to.
func (im *importer) variable(key, part, what string) string {
	base := strings.Trim(notInVariable.ReplaceAllString(strings.ToUpper(key+"_"+part), "_"), "_")
	if base[0] <= '9' {
		base = "MCP_" + base
	}
	name := base
	for n := 2; im.vars[name]; n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	im.vars[name] = true
	im.note("%s: set the environment variable %s to %s; it is not copied", key, name, what)
	return name
}

// key is the client's name in the form that a document allows, and not yet taken.
// Underscores are single, because two of them separate the key from a tool's name.
func (im *importer) key(name string) string {
	base := notInKey.ReplaceAllStringFunc(name, func(run string) string {
		if run[0] == '_' {
			return "_"
		}
		return "-"
	})
	base = strings.Trim(base, "._-")
	base = base[:min(len(base), 60)]
	if base == "" {
		base = "upstream"
	}
	key := base
	for n := 2; im.keys[key]; n++ {
		key = fmt.Sprintf("%s-%d", base, n)
	}
	im.keys[key] = true
	if key != name {
		im.note("%s is named %s here", quote(name), key)
	}
	return key
}

// kept escapes what only looks like a variable of ours, such as ${input:token}.
func kept(value string) string {
	return anyReference.ReplaceAllStringFunc(value, func(found string) string {
		if found == "${" {
			return "$${"
		}
		return found
	})
}

// quote is a text as a quoted YAML value in one line: JSON strings are valid YAML.
func quote(text string) string {
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return `""`
	}
	return string(quoted)
}
