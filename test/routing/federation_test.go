package routing_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// toolNames are the 24 tools of the federation, eight of each upstream. They
// meet every rule for names: equal names, separators inside, characters that
// need a short form, names that are too long, keys that hide in each other.
var toolNames = map[string][]string{
	"files":    {"read", "write", "list", "copy", "move", "delete_all", "v2-read", "stat"},
	"files-v2": {"read", "write", "list", "search files", "données", "a_tool_whose_name_alone_is_longer_than_the_64_characters_that_clients_take", "stat", "read.raw"},
	"gh":       {"list", "create_pr", "hub__merge", "delete_branch", "search", "read", "me", "Me"},
}

func federation() peers {
	up := peers{}
	for key, names := range toolNames {
		up[key] = &peer{tools: items("tools", names...), page: 3, legacy: key == "files-v2"}
	}
	up["gh"].namespace = "hub"
	return up
}

const federationServers = `  default:
    page_size: 5
    aliases:
      deploy: {upstream: gh, tool: create_pr}
      files__read: {upstream: files-v2, tool: read}
  prefixed:
    naming: prefixed
    page_size: 5
    aliases:
      deploy: {upstream: gh, tool: create_pr}
  exposed:
    expose: {tools: {allow: ["hub__*", "*read*"], deny: ["*delete*", me]}}`

// exposedAs is the golden list: what every tool is listed as, by rule.
var exposedAs = map[string]map[string]map[string]string{
	"default": {
		"files": {
			"read": "files__read_lmtz6zmez6", "write": "files__write", "list": "files__list", "copy": "files__copy",
			"move": "files__move", "delete_all": "files__delete_all", "v2-read": "files__v2-read", "stat": "files__stat",
		},
		"files-v2": {
			"read": "files__read", "write": "files-v2__write", "list": "files-v2__list", "search files": "files-v2__search_files_g22z5l2it7",
			"données": "files-v2__donn_es_ewxa3hrwcc", toolNames["files-v2"][5]: "files-v2__a_tool_whose_name_alone_is_longer_than_the__izj2h4zru5", "stat": "files-v2__stat", "read.raw": "files-v2__read.raw",
		},
		"gh": {
			"list": "hub__list", "create_pr": "deploy", "hub__merge": "hub__hub__merge", "delete_branch": "hub__delete_branch",
			"search": "hub__search", "read": "hub__read", "me": "hub__me", "Me": "hub__Me",
		},
	},
	"prefixed": {
		"files": {
			"read": "files-read", "write": "files-write", "list": "files-list", "copy": "files-copy",
			"move": "files-move", "delete_all": "files-delete_all", "v2-read": "files-v2-read_ko5p5kcfo7", "stat": "files-stat",
		},
		"files-v2": {
			"read": "files-v2-read", "write": "files-v2-write", "list": "files-v2-list", "search files": "files-v2-search_files_eco24ixkgu",
			"données": "files-v2-donn_es_r7l5jsmbeq", toolNames["files-v2"][5]: "files-v2-a_tool_whose_name_alone_is_longer_than_the_6_rmxfbbkiw2", "stat": "files-v2-stat", "read.raw": "files-v2-read.raw",
		},
		"gh": {
			"list": "gh-list", "create_pr": "deploy", "hub__merge": "gh-hub__merge", "delete_branch": "gh-delete_branch",
			"search": "gh-search", "read": "gh-read", "me": "gh-me", "Me": "gh-Me",
		},
	},
}

func TestFederationOf24ToolsIsListedAndRoutedUnderEachRule(t *testing.T) {
	t.Parallel()
	up := federation()
	gw := serve(t, up, federationServers)
	for server, byKey := range exposedAs {
		var golden []string
		for _, byName := range byKey {
			for _, exposed := range byName {
				golden = append(golden, exposed)
			}
		}
		slices.Sort(golden)
		for era, c := range gw.clients(t, server) {
			if diff := cmp.Diff(golden, c.ids(t, "tools/list")); diff != "" {
				t.Errorf("%s, %s client: %s", server, era, diff)
			}
			for key, byName := range byKey {
				for original, exposed := range byName {
					a := c.named(t, "tools/call", exposed)
					want(t, a, up[key], "tools/call", original)
					if !strings.Contains(string(a.raw), `"penstock/upstream":"`+key+`"`) {
						t.Errorf("%s: %s is not answered by %s: %s", server, exposed, key, a.raw)
					}
				}
			}
		}
	}
}

func TestFederationUnderPassthroughIsOneUpstreamUnchanged(t *testing.T) {
	t.Parallel()
	var names []string
	for _, key := range []string{"files", "files-v2", "gh"} {
		for _, n := range toolNames[key] {
			names = append(names, key+"/"+n)
		}
	}
	for _, legacy := range []bool{false, true} {
		up := peers{"only": {legacy: legacy, page: 5, tools: items("tools", names...)}}
		gw := serve(t, up, "  default: {naming: passthrough, page_size: 5}")
		for era, c := range gw.clients(t, "") {
			golden := slices.Sorted(slices.Values(names))
			if diff := cmp.Diff(golden, c.ids(t, "tools/list")); diff != "" {
				t.Errorf("%s: %s", era, diff)
			}
			for _, n := range names {
				want(t, c.named(t, "tools/call", n), up["only"], "tools/call", n)
			}
		}
	}
}

// Short forms are the same in every process, and stay callable beside aliases.
func TestFederationCanonicalNamesOfAliasedToolsStayCallable(t *testing.T) {
	t.Parallel()
	up := federation()
	gw := serve(t, up, federationServers)
	for _, c := range gw.clients(t, "") {
		want(t, c.named(t, "tools/call", "hub__create_pr"), up["gh"], "tools/call", "create_pr")
		want(t, c.named(t, "tools/call", "files-v2__read"), up["files-v2"], "tools/call", "read")
	}
	for _, c := range gw.clients(t, "prefixed") {
		want(t, c.named(t, "tools/call", "gh-create_pr"), up["gh"], "tools/call", "create_pr")
	}
}

func TestFederationExposesWhatTheFiltersSay(t *testing.T) {
	t.Parallel()
	up := federation()
	gw := serve(t, up, federationServers)
	for era, c := range gw.clients(t, "exposed") {
		golden := []string{
			"files-v2__read", "files-v2__read.raw", "files__read", "files__v2-read",
			"hub__Me", "hub__create_pr", "hub__hub__merge", "hub__list", "hub__read", "hub__search",
		}
		if diff := cmp.Diff(golden, c.ids(t, "tools/list")); diff != "" {
			t.Errorf("%s: %s", era, diff)
		}
		for _, p := range up {
			p.forget()
		}
		for _, hidden := range []string{"hub__me", "hub__delete_branch", "files__delete_all", "files__write"} {
			wantCode(t, c.named(t, "tools/call", hidden), -32602, "tools/call", up)
		}
		want(t, c.named(t, "tools/call", "hub__hub__merge"), up["gh"], "tools/call", "hub__merge")
	}
}

// DESIGN section 6: a walk of pages ends, shows nothing twice, and shows all of
// an upstream that was always there, whatever the others do meanwhile.
func TestFederationIsWalkedInPagesWhileUpstreamsComeAndGo(t *testing.T) {
	t.Parallel()
	up := federation()
	gw := serve(t, up, federationServers)
	for server, byKey := range exposedAs {
		for era, c := range gw.clients(t, server) {
			up["files"].down.Store(false)
			up["gh"].down.Store(true)
			seen := map[string]int{}
			params := ""
			for page := 1; ; page++ {
				p := c.call(t, "tools/list", params).page(t)
				if len(p.Tools) > 5 || len(p.Tools) == 0 && p.NextCursor != nil || page > 10 {
					t.Fatalf("%s, %s: page %d: %+v", server, era, page, p)
				}
				for _, i := range p.Tools {
					seen[i.Name]++
				}
				if p.NextCursor == nil {
					break
				}
				params = `{"cursor":` + quote(*p.NextCursor) + `}`
				up["files"].down.Store(page%2 == 1)
				up["gh"].down.Store(page%2 == 0)
				time.Sleep(300 * time.Millisecond)
			}
			for name, n := range seen {
				if n > 1 {
					t.Errorf("%s, %s: %s came %d times", server, era, name, n)
				}
			}
			for _, exposed := range byKey["files-v2"] {
				if seen[exposed] != 1 {
					t.Errorf("%s, %s: %s came %d times", server, era, exposed, seen[exposed])
				}
			}
		}
	}
}
