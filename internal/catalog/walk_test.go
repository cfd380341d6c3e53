package catalog

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

func list(t *testing.T, s *Server, kind mcp.Kind) List {
	t.Helper()
	l, err := s.List(t.Context(), alice, nil, kind, mcp.LatestModern, "", false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryPageOfAnUpstreamIsListed(t *testing.T) {
	f := newFleet()
	u := f.up("a", nil)
	var want []string
	for p := range 7 {
		var on []string
		for i := range 15 {
			name := fmt.Sprintf("t%03d", p*15+i)
			on = append(on, tool(name))
			want = append(want, "a__"+name)
		}
		if p == 3 { // an empty page is not the end
			u.pages[mcp.Tools] = append(u.pages[mcp.Tools], result(mcp.Tools, fmt.Sprint(len(u.pages[mcp.Tools])+1)))
		}
		next := fmt.Sprint(len(u.pages[mcp.Tools]) + 1)
		if p == 6 {
			next = ""
		}
		u.pages[mcp.Tools] = append(u.pages[mcp.Tools], result(mcp.Tools, next, on...))
	}
	s := serve(t, f, func(o *Options) { o.PageSize = 10 })
	if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, want) {
		t.Errorf("got %d tools, want %d", len(got), len(want))
	}
}

func TestAnEmptyStringIsACursorOfAnUpstream(t *testing.T) {
	f := newFleet()
	f.up("a", nil).answer = func(_ Scope, kind mcp.Kind, cursor []byte) (string, error) {
		if cursor == nil {
			return `{"tools":[{"name":"one"}],"nextCursor":""}`, nil
		}
		if string(cursor) != `""` {
			return "", errors.New("another cursor")
		}
		return `{"tools":[{"name":"two"}]}`, nil
	}
	s := serve(t, f, nil)
	if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"a__one", "a__two"}) {
		t.Errorf("got %q", got)
	}
}

func TestAWalkEndsAtItsBoundsAndSaysSo(t *testing.T) {
	n := 0
	for _, tc := range []struct {
		name   string
		answer func(Scope, mcp.Kind, []byte) (string, error)
		items  int
		reason string
	}{
		{"the same cursor for ever", func(Scope, mcp.Kind, []byte) (string, error) {
			return result(mcp.Tools, "same", tool("a")), nil
		}, 1, "repeated a cursor"},
		{"two cursors in turn", func(_ Scope, _ mcp.Kind, c []byte) (string, error) {
			if string(c) == `"x"` {
				return result(mcp.Tools, "y", tool("b")), nil
			}
			return result(mcp.Tools, "x", tool("a")), nil
		}, 2, "repeated a cursor"},
		{"new cursors and empty pages for ever", func(Scope, mcp.Kind, []byte) (string, error) {
			n++
			return result(mcp.Tools, fmt.Sprint("c", n)), nil
		}, 0, "bound of 20 pages"},
		{"new tools for ever", func(Scope, mcp.Kind, []byte) (string, error) {
			n++
			return result(mcp.Tools, fmt.Sprint("c", n), tool(fmt.Sprint("t", n, "a")), tool(fmt.Sprint("t", n, "b")), tool(fmt.Sprint("t", n, "c"))), nil
		}, 10, "bound of 10 items"},
		{"one page beyond the bound", func(Scope, mcp.Kind, []byte) (string, error) {
			var on []string
			for i := range 30 {
				on = append(on, tool(fmt.Sprint(i)))
			}
			return result(mcp.Tools, "", on...), nil
		}, 10, "bound of 10 items"},
		{"a cursor that is no string", func(Scope, mcp.Kind, []byte) (string, error) {
			return `{"tools":[{"name":"a"}],"nextCursor":7}`, nil
		}, 1, "no string"},
		{"a second page that breaks", func(_ Scope, _ mcp.Kind, c []byte) (string, error) {
			if c == nil {
				return result(mcp.Tools, "2", tool("a")), nil
			}
			return "", fault.New(fault.ConnectionLost, "the connection was lost")
		}, 1, "only the first 1 items were listed: the connection was lost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
				f := newFleet()
				bad := f.up("bad", nil)
				bad.answer, bad.era = tc.answer, era
				f.up("good", tools("x"))
				s := serve(t, f, func(o *Options) { o.MaxPages, o.MaxItems = 20, 10 })
				l := list(t, s, mcp.Tools)
				if l.Count != tc.items+1 {
					t.Errorf("%s: %d items, want %d", era, l.Count, tc.items+1)
				}
				if len(l.Missing) != 1 || l.Missing[0].Upstream != "bad" || !strings.Contains(l.Missing[0].Reason, tc.reason) {
					t.Errorf("%s: missing: got %+v, want %q", era, l.Missing, tc.reason)
				}
				if l.TTL > time.Second {
					t.Errorf("%s: a partial list promises %s", era, l.TTL)
				}
				// What lies beyond the bound may still be called.
				goesTo(t, s, mcp.Tools, "bad__beyond", "bad", "beyond")
			}
		})
	}
}

func TestAbsentNullAndMissingListsAreEmpty(t *testing.T) {
	f := newFleet()
	f.up("absent", nil)
	f.up("null", nil).answer = func(Scope, mcp.Kind, []byte) (string, error) {
		return `{"tools":null,"prompts":null,"nextCursor":null}`, nil
	}
	f.up("none", nil).answer = func(Scope, mcp.Kind, []byte) (string, error) { return `{}`, nil }
	s := serve(t, f, nil)
	for _, kind := range []mcp.Kind{mcp.Tools, mcp.Prompts} {
		if l := list(t, s, kind); l.Count != 0 || len(l.Items) != 0 || l.Missing != nil {
			t.Errorf("%s: got %+v, want an empty and whole list", kind, l)
		}
	}
	isRefused(t, s, mcp.Tools, "absent__x")
}

func TestItemsKeepTheirBytes(t *testing.T) {
	f := newFleet()
	full := `{ "title" : "T<>&é", "name":"na\u006de","outputSchema":{"$defs":{"a":{"$ref":"#/x"}},"type":"object"}, "annotations":{"x":9007199254740993,"y":1.0,"z":1e400},
 "inputSchema":{"type":"object","oneOf":[1,2],"dup":1,"dup":2},"_meta":{"vendor/x":null,"ui":{"resourceUri":"ui://panel/a","visibility":["model"]},"ui/resourceUri":"ui://panel/a"},"icons":[] }`
	bare := `{"name":"bare"}`
	null := `{"inputSchema": null,"name":"null"}`
	f.up("u", map[mcp.Kind][]string{mcp.Tools: {full, bare, null}})
	for rule, prefix := range map[Naming]string{Namespaced: "u__", Passthrough: ""} {
		s := serve(t, f, func(o *Options) { o.Naming = rule })
		want := strings.Join([]string{
			`{"inputSchema":{"type":"object"},"name":"` + prefix + `bare"}`,
			full,
			`{"inputSchema": {"type":"object"},"name":"` + prefix + `null"}`,
		}, ",")
		if rule == Namespaced {
			want = strings.Replace(want, `na\u006de`, "u__name", 1)
			want = strings.ReplaceAll(want, "ui://panel/a", "ui://u/panel/a")
		}
		if got := string(list(t, s, mcp.Tools).Items); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", rule, got, want)
		}
	}
}

func TestBrokenItemsAreLeftOutAndReportedOnce(t *testing.T) {
	f := newFleet()
	f.up("u", map[mcp.Kind][]string{mcp.Tools: {
		tool("good"), tool("good"), `{"name":"lies","name":"twice"}`, `{"title":"nameless"}`, `{"name":7}`, `{"name":""}`,
		`"text"`, `null`, `{"name":"cut","x":tru}`, "{\"name\":\"line\nbreak\"}", "{\"name\":\"bad\xff\"}",
		`{"name":"header","inputSchema":{"properties":{"x":{"type":"number","x-mcp-header":"X"}}}}`,
	}})
	var log strings.Builder
	s := serve(t, f, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 3 {
		if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"u__good"}) {
			t.Errorf("got %q", got)
		}
		s.Invalidate("u", mcp.Tools, false)
	}
	s.Close()
	if got := strings.Count(log.String(), "item of an upstream's list is left out"); got != 10 {
		t.Errorf("%d items are reported, want 10:\n%s", got, log.String())
	}
	if got := strings.Count(log.String(), "lists an identifier twice"); got != 1 {
		t.Errorf("the duplicate is reported %d times:\n%s", got, log.String())
	}
}

func TestAnAnswerThatIsNoListIsAFailureOfThatUpstreamAlone(t *testing.T) {
	for _, raw := range []string{``, `[]`, `{"tools":{}}`, `{"tools":[1}`, `{"tools":[],"tools":[]}`, `{"tools":[]}x`, `<html>`} {
		f := newFleet()
		f.up("bad", nil).answer = func(Scope, mcp.Kind, []byte) (string, error) { return raw, nil }
		f.up("good", tools("x"))
		s := serve(t, f, nil)
		l := list(t, s, mcp.Tools)
		if l.Count != 1 || len(l.Missing) != 1 || l.Missing[0].Upstream != "bad" {
			t.Errorf("%s: got %d items, missing %+v", raw, l.Count, l.Missing)
		}
	}
}
