package hostile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// references are the rows of the reference, by section, as their first column names them.
var references = map[string][]string{
	"Lists, names, schemas": {
		"agentgateway#3476",
		"sparfenyuk/mcp-proxy#233",
		"DeusData/codebase-memory-mcp#1247, LL PR#39172",
		"BerriAI/litellm#32229",
		"vscode#243602, strands-agents/harness-sdk#4513, LL PR#32319",
		"docker/mcp-gateway#228",
		"agentgateway#1622, THV arch/10",
		"docker/mcp-gateway#567",
		"agentgateway#495",
		"Kuadrant#150",
		"IBM/mcp-context-forge#1258, mastra#18850",
		"1M `inputSchema ?? {type:object}`; EAG list slices",
		"fastmcp#2496, #2525, mastra#23068",
		"agentgateway#1850, cherry-studio PR#18075, comfyui-mcp#29, codebase-memory PR#1015",
		"mcp-hangar#879, harper#1611",
		"envoyproxy/ai-gateway#1364",
	},
	"Payload fidelity": {
		"go-sdk#1236, #1201; mcp-go#913, #592; higress PR#3760",
		"sparfenyuk#133, giantswarm/muster#975",
		"sparfenyuk PR#189",
		"IBM/mcp-context-forge#6275, loopover#10036, sh1pt#703, flowfuse#8572",
		"agentgateway#2082, #758",
		"python-sdk#961, radare2-mcp#68, codebase-memory-mcp#253",
		"envoyproxy/ai-gateway#2218",
		"envoyproxy/ai-gateway#1938",
		"wso2/api-platform#2885",
	},
	"SSE and streams": {
		"stacklok/toolhive#5655",
		"go-sdk#1175",
		"go-sdk#633",
		"playwright-mcp#1293, #1646; agentgateway PR#2207 (#2187)",
		"python-sdk#3493, #3357",
		"after-effects-mcp#82, typescript-sdk PR#2378, toolhive PR#1595",
		"toolhive#5744, #5749, fastmcp#4161",
	},
	"Sessions, versions, eras": {
		"stacklok/toolhive#4425",
		"mcpjungle#268, agentgateway#742",
		"toolhive#5306, mcp-oauth#584",
		"toolhive#3867, agentgateway#2397, EAG",
		"agentgateway#2980, MikkoParkkola/mcp-gateway#517, OpenViking PR#3214",
		"envoyproxy/ai-gateway#2542, effect PR#7388, gitlab-mcp#652",
		"rust-sdk#1040, spec PR#2844, hermes#88698",
		"rust-sdk PR#1269",
		"go-sdk#1234/PR#1246, mcp-hangar#1050",
		"appwrite/mcp PR#100",
		"MCP-Nest PR#262/#263, archestra PR#6930",
		"modelcontextprotocol#3207, zilla#2063, template-agent#230, LibreChat PR#10201",
	},
	"Tasks": {
		"mcp-hangar#1394",
		"fold",
		"agentgateway",
		"fold; CF#6185",
		"airlift PR#2084, CF#6186",
		"bernstein#3079, FLUJO#404, ttoss#1168",
		"agentgateway",
		"python-sdk PR#2720, PR#3005",
	},
	"Availability, processes, transport, security": {
		"agentgateway#962, mastra#13521, centian#41",
		"toolhive#5861 (fix PR#6162)",
		"Kuadrant#209, hermes#112445, #94202",
		"ferro#361, hermes#16788, #57604, kimi-code#2109",
		"1mcp#547",
		"docker#483, #318; mcp-debugger#633; hermes#59349",
		"denkeeper#219, pluggedin-app PR#209",
		"fastmcp#4124, XcodeMCPKit#210, mcp-use#2473",
		"typescript-sdk#2250, opencode PR#21701",
		"go-sdk#1073, #499, PR#494; mcp-go#789",
		"go-sdk#857, bytebase PR#20585, python-sdk#1798",
		"agentgateway#1582, baruchiro/paperless-mcp#154",
		"envoyproxy/ai-gateway#1914",
		"IBM/mcp-context-forge#3990, agentgateway#545, insforge PR#69",
		"opencode#34074, vercel/ai PR#20694",
		"zentinel PR#463",
	},
	"Routing gateways": {
		"#6491 (open), PR #5553",
		"#4205, PR #4283",
		"#2055",
		"#950",
		"#1258",
		"#4042",
		"#5472 (open)",
		"PR #4204",
		"#6275 (open)",
		"#6576 (open)",
		"#4306 (open, GAP-009), #1259, #4288",
		"#3050, PR #176",
		"#4664 (data plane), #6634",
		"#5346 (open, data plane), #3734, #1984, #1910",
		"#5270, #4647 (open), #6339 (data plane)",
		"#6250 (open, data plane)",
		"#5600 (data plane), #1986, PR #2536",
		"#5255 (data plane)",
		"#6647 (open)",
		"#1983, #6645 (open)",
		"#6629 (open)",
		"#4445 (open)",
		"#4915 (open), PR #4499",
		"#1046, #1104, #6591 (open)",
		"#704",
		"PR #5393",
		"PR #1900 (#1897)",
		"#855",
		"#5681 (open, data plane)",
		"BerriAI/litellm#15725",
		"modelcontextprotocol/rust-sdk#1261",
		"#387",
	},
}

// topics are the later issues that a row may wait for.
var topics = []string{"What flows back", "Who may do what", "A task id finds its owner"}

var laterTopic = regexp.MustCompile(`^later: ([^(]+?)(?: \(.+\))?$`)

// namedTest is a test and, in brackets, its folder where that is not this one.
var namedTest = regexp.MustCompile("^`(Test\\w+)`(?: \\(([\\w./]+)\\))?$")

// tests are the names of the test functions of a folder.
func tests(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}

func TestEveryRowHasItsTestOrItsIssue(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("ROWS.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]map[string]bool{} // by folder
	got := map[string][]string{}
	section := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
		}
		row, ok := strings.CutPrefix(line, "| ")
		if !ok || strings.HasPrefix(line, "| Row ") {
			continue
		}
		ref, where, ok := strings.Cut(strings.TrimSuffix(row, " |"), " | ")
		if !ok {
			t.Errorf("not a row: %s", line)
			continue
		}
		got[section] = append(got[section], ref)
		for _, one := range strings.Split(where, "<br>") {
			if m := laterTopic.FindStringSubmatch(one); m != nil {
				if !slices.Contains(topics, m[1]) {
					t.Errorf("%s: %q is no later issue", ref, m[1])
				}
				continue
			}
			m := namedTest.FindStringSubmatch(one)
			if m == nil {
				t.Errorf("%s: neither a test nor a later issue: %s", ref, one)
				continue
			}
			folder := "."
			if m[2] != "" {
				folder = filepath.Join("..", "..", m[2])
			}
			if known[folder] == nil {
				known[folder] = tests(t, folder)
			}
			if !known[folder][m[1]] {
				t.Errorf("%s: there is no test %s", ref, one)
			}
		}
	}
	for section, want := range references {
		if !slices.Equal(want, got[section]) {
			t.Errorf("%s: the table has\n%q\nand the reference\n%q", section, got[section], want)
		}
	}
	if len(got) != len(references) {
		t.Errorf("the table has %d sections, the reference %d", len(got), len(references))
	}
}
