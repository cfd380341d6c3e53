package hostile_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// pad makes a message longer than what is held whole.
var pad = `"pad":"` + strings.Repeat("p", 200<<10) + `"`

// What is refused in a small answer is not let through in a large one. It may
// show only when the answer has begun: then the connection is cut.
func TestALargeAnswerIsHeldToTheSameRules_badInput(t *testing.T) {
	t.Parallel()
	type answer func(x *exchange) string
	result := func(members string) answer {
		return func(x *exchange) string { return x.message(`"result":{` + members + `}`) }
	}
	for name, message := range map[string]answer{
		"another's id, first":    func(*exchange) string { return `{"jsonrpc":"2.0","id":"nobody","result":{` + pad + `}}` },
		"another's id, last":     func(*exchange) string { return `{"jsonrpc":"2.0","result":{` + pad + `},"id":"nobody"}` },
		"no id":                  func(*exchange) string { return `{"jsonrpc":"2.0","result":{` + pad + `}}` },
		"id null":                func(*exchange) string { return `{"jsonrpc":"2.0","id":null,"result":{` + pad + `}}` },
		"version 1.0":            func(x *exchange) string { return `{"jsonrpc":"1.0","id":` + x.ID + `,"result":{` + pad + `}}` },
		"a task, first":          result(`"resultType":"task","taskId":"t",` + pad),
		"a task, last":           result(pad + `,"resultType":"task","taskId":"t"`),
		"an unknown type":        result(`"resultType":"zzz",` + pad),
		"state that is not ours": result(`"resultType":"input_required","requestState":"UP-STATE",` + pad),
		"state behind":           result(pad + `,"requestState":"UP-STATE","resultType":"input_required"`),
		"our headers are wrong": func(x *exchange) string {
			return x.message(`"error":{"code":-32020,"message":"m","data":{` + pad + `}}`)
		},
		"result and error":        func(x *exchange) string { return x.message(`"result":{` + pad + `},"error":{"code":-1,"message":"m"}`) },
		"an array":                func(x *exchange) string { return `[` + x.message(`"result":{`+pad+`}`) + `,7]` },
		"data behind":             func(x *exchange) string { return x.message(`"result":{`+pad+`}`) + `{}` },
		"cut at the last bracket": func(x *exchange) string { m := x.message(`"result":{` + pad + `}`); return m[:len(m)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			bothEras(t, func(t *testing.T, u *upstream) {
				modernOnly := strings.Contains(name, "task") || strings.Contains(name, "type") || strings.Contains(name, "state") || strings.Contains(name, "our ")
				if modernOnly && u.legacy != "" {
					return // these mean nothing to a legacy upstream
				}
				u.tool("json", "sse")
				u.handle("tools/call", func(x *exchange) { x.answer(text(x.Params, "name") == "sse", message(x)) })
				g := open(t, members{"a": u, "b": newModern(t).tool("fine")})
				for _, tool := range []string{"a__json", "a__sse"} {
					for _, version := range []string{"", "2025-11-25", "2025-06-18", "2025-03-26"} {
						var r *reply
						if version == "" {
							r = g.try(modernBody("1", "tools/call", `"name":"`+tool+`"`), modernHeaders("tools/call", tool)...)
						} else {
							s := g.legacy(version)
							r = s.try(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`, s.headers()...)
						}
						refused := at(r.message(), "error", "code") == "-31007"
						cut := r.Err != nil && at(r.message(), "result") == ""
						sealed := strings.HasPrefix(name, "state") && !strings.Contains(r.Body, "UP-STATE") && version == ""
						// A legacy client that cannot be asked learns that its tool has failed.
						failed := strings.HasPrefix(name, "state") && at(r.message(), "result", "isError") == "true" && version != ""
						if !refused && !cut && !sealed && !failed {
							t.Errorf("%s to %q: HTTP %d, %v, %.60s", tool, version, r.Status, r.Err, r.Body)
						}
						if strings.Contains(r.Body, "UP-STATE") {
							t.Errorf("%s to %q: the upstream's state left unsealed", tool, version)
						}
					}
					healthy(t, g, "b__fine")
				}
			})
		})
	}
}

func TestALargeErrorIsStillAnError_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t").resource("memo://1")
		u.handle("tools/call", func(x *exchange) {
			x.body(http.StatusBadRequest, "application/json", x.message(`"error":{"code":-32602,"message":"bad","data":{`+pad+`}}`))
		})
		u.handle("resources/read", func(x *exchange) {
			x.body(http.StatusOK, "application/json", x.message(`"error":{"code":-32002,"message":"gone","data":{"uri":"memo://1",`+pad+`}}`))
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			wantError(t, c.request("tools/call", `"name":"a__t"`), http.StatusOK, -32602)
			r := c.request("resources/read", `"uri":"memo://1"`)
			want := map[string]string{"modern": "-32602", "legacy": "-32002"}[era]
			if at(r.message(), "error", "code") != want {
				t.Errorf("%s: want %s, got HTTP %d %.200s", era, want, r.Status, r.Body)
			}
		}
	})
}

func TestALargeResultIsProjectedAsASmallOneIs_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("list")
	u.handle("tools/call", func(x *exchange) {
		x.body(http.StatusOK, "application/json", x.message(`"result":{"resultType":"complete","content":[],"structuredContent":["`+strings.Repeat("s", 200<<10)+`"],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"forged","version":"1"}}}`))
	})
	g := open(t, members{"a": u})
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		result := wantResult(t, g.legacy(version).call("tools/call", `"name":"a__list"`))
		if at(result, "structuredContent") != "" || at(result, "resultType") != "" || strings.Contains(result, "forged") {
			t.Errorf("%s: %.300s", version, result)
		}
		if !strings.Contains(text(result, "content", 0, "text"), "ssss") {
			t.Errorf("%s: what was dropped is not there as text: %.200s", version, result)
		}
	}
	result := wantResult(t, g.modern("tools/call", `"name":"a__list"`))
	if strings.Contains(result, "forged") || text(result, "_meta", "io.modelcontextprotocol/serverInfo", "name") != "penstock" {
		t.Errorf("modern: %s", result[max(0, len(result)-300):])
	}
}

func TestAnUpstreamThatDripsIsEndedByTheCallsClock_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("comments", "body", "head", "messages", "big")
		drip := func(x *exchange, piece string) {
			for x.r.Context().Err() == nil {
				x.stream(piece)
				select {
				case <-time.After(50 * time.Millisecond):
				case <-x.u.closed:
					return
				}
			}
		}
		u.handle("tools/call", func(x *exchange) {
			switch text(x.Params, "name") {
			case "comments":
				drip(x, ": still here\n\n")
			case "messages":
				drip(x, event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`))
			case "body":
				x.w.Header().Set("Content-Type", "application/json")
				drip(x, " ")
			case "big":
				x.w.Header().Set("Content-Type", "application/json")
				x.stream(`{"jsonrpc":"2.0","id":` + x.ID + `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("b", 100<<10))
				drip(x, "b")
			case "head":
				x.hang()
			}
		})
		g := serve(t, document(members{"a": u, "b": newModern(t).tool("fine")}, map[string]string{"a": "timeout: 700ms, breaker: {failures: 1000, open: 1s}"}, quick))
		s := g.legacy("2025-11-25")
		_ = names(t, g, "tools/list")
		var calls sync.WaitGroup
		for _, tool := range []string{"comments", "messages", "body", "head", "big"} {
			name := "a__" + tool
			for era, call := range map[string]func() *reply{
				"modern": func() *reply {
					return g.try(modernBody("1", "tools/call", `"name":"`+name+`"`), modernHeaders("tools/call", name)...)
				},
				"legacy": func() *reply {
					return s.try(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`, s.headers()...)
				},
			} {
				calls.Go(func() {
					start := time.Now()
					r := call()
					if code := at(r.message(), "error", "code"); code != "-31002" && !(tool == "big" && r.Err != nil) {
						t.Errorf("%s %s: %.300v", era, tool, r)
					}
					if took := time.Since(start); took > 4*time.Second {
						t.Errorf("%s %s took %s", era, tool, took)
					}
				})
			}
		}
		healthy(t, g, "b__fine")
		healthy(t, s, "b__fine")
		calls.Wait()
	})
}

func TestAnEarlyAnswerToALargeRequestArrives_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.start()
		inner := u.server.Config.Handler
		u.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1<<20 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return // without having read it
			}
			inner.ServeHTTP(w, r)
		})
		g := open(t, members{"a": u, "b": newModern(t).tool("fine")})
		big := `,"arguments":{"x":"` + strings.Repeat("x", 3<<20) + `"}`
		for era, c := range g.clients() {
			for range 3 {
				r := c.request("tools/call", `"name":"a__t"`+big)
				if code := at(r.message(), "error", "code"); code != "-31007" && code != "-31003" {
					t.Errorf("%s: %.300v", era, r)
				}
				healthy(t, c, "a__t")
				healthy(t, c, "b__fine")
			}
		}
	})
}

func TestASessionThatIsForgottenIsHealedOnce_badInput(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t")
	g := open(t, members{"a": u})
	s := g.legacy("2025-11-25")
	healthy(t, s, "a__t")
	u.mu.Lock()
	clear(u.sessions)
	u.mu.Unlock()
	before := len(u.requests("initialize"))
	healthy(t, s, "a__t")
	if n := len(u.requests("initialize")) - before; n != 1 {
		t.Errorf("healing took %d handshakes", n)
	}
	// One that forgets at once is a clear error, and no storm.
	u.handle("tools/call", func(x *exchange) { x.body(http.StatusNotFound, "text/plain", "gone") })
	before, calls := len(u.requests("initialize")), len(u.requests("tools/call"))
	r := s.call("tools/call", `"name":"a__t"`)
	if code := at(r.message(), "error", "code"); r.Status != http.StatusOK || code != "-31007" && code != "-31001" {
		t.Errorf("%v", r)
	}
	if n, c := len(u.requests("initialize"))-before, len(u.requests("tools/call"))-calls; n > 1 || c > 2 {
		t.Errorf("it took %d handshakes and %d calls", n, c)
	}
}

func TestBatchesOfTheOldestRevisionAreRead_checklist145(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "2025-03-26", true).tool("json", "sse", "flood")
	u.handle("tools/call", func(x *exchange) {
		batch := `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},{"jsonrpc":"2.0","id":"other","result":{}},` + x.message(done) + `]`
		switch text(x.Params, "name") {
		case "flood":
			x.answer(true, `[`+strings.Repeat(`7,`, 20_000)+`7]`)
		default:
			x.answer(text(x.Params, "name") == "sse", batch)
		}
	})
	g := open(t, members{"a": u})
	for _, c := range []caller{g, g.legacy("2025-11-25"), g.legacy("2025-03-26")} {
		for _, tool := range []string{"json", "sse"} {
			if got := text(wantResult(t, c.request("tools/call", `"name":"a__`+tool+`"`)), "content", 0, "text"); got != "ok" {
				t.Errorf("%s gave %q", tool, got)
			}
		}
		wantError(t, c.request("tools/call", `"name":"a__flood"`), http.StatusOK, -31007)
	}
}

func TestForgedMetadataOfAnUpstreamIsReplaced_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			x.body(http.StatusOK, "application/json", x.message(`"result":{"content":[],"resultType":"complete","_meta":{"penstock/upstream":"someone","io.modelcontextprotocol/serverInfo":{"name":"forged","version":"1"},"v/k":[1.0]}}`))
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			result := wantResult(t, c.request("tools/call", `"name":"a__t"`))
			info := text(result, "_meta", "io.modelcontextprotocol/serverInfo", "name")
			if text(result, "_meta", "penstock/upstream") != "a" || strings.Contains(result, "forged") || at(result, "_meta", "v/k") != "[1.0]" || (era == "modern") != (info == "penstock") {
				t.Errorf("%s: %s", era, result)
			}
			if n := strings.Count(result, "penstock/upstream"); n != 1 {
				t.Errorf("%s: the tag is there %d times", era, n)
			}
		}
	})
}

func TestEventsWithLineEndsForgeNoEvents_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			token := at(x.Params, "_meta", "progressToken")
			x.stream(
				"data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/progress\",\ndata: \"params\":{\"progressToken\":"+token+",\"progress\":1}}\n\n",
				"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":"+token+",\"progress\":2,\"message\":\"x\ndata: y\"}}\n\n",
				event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":3}}`, token)),
				event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"not-given","progress":4}}`),
				event(x.message(done)))
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			r := withToken(c, "a__t", `"p"`)
			wantResult(t, r)
			var got []string
			for _, e := range r.Events[:len(r.Events)-1] {
				got = append(got, at(e, "params", "progress"))
			}
			if fmt.Sprint(got) != "[1 3]" {
				t.Errorf("%s: %v\n%s", era, got, r.Body)
			}
		}
	})
}
