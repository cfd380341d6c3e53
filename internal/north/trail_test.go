package north

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// DESIGN section 2, step 12: one event per request, whatever became of it.
func TestEveryRequestIsRecordedOnceWhateverBecameOfIt(t *testing.T) {
	g := &rooms{}
	f := open(t, g, func(o *Options) { o.RequestID = func() string { return "req-1" } })
	session := f.initialize("2025-03-26")
	g.recorded()
	evil := map[string]string{"Origin": "https://evil.example"}
	for name, c := range map[string]struct {
		serve func(context.Context, *Exchange) error
		admit func(*Exchange) error
		who   func(*http.Request) (*Principal, error)
		send  func() got
		want  []Trail
	}{
		"a result": {
			send: func() got { return f.modern("tools/list", "", "") },
			want: []Trail{{Detail: "tools/list", Outcome: OK}},
		},
		"an error of the upstream's": {
			serve: func(_ context.Context, x *Exchange) error {
				x.Trail.Foreign(-32000)
				return x.Result([]byte(`{}`))
			},
			send: func() got { return f.modern("tools/list", "", "") },
			want: []Trail{{Detail: "tools/list", Outcome: Error, Code: -32000}},
		},
		"a refusal": {
			serve: func(context.Context, *Exchange) error { return fault.New(fault.PolicyDenied, "no") },
			send:  func() got { return f.modern("tools/list", "", "") },
			want:  []Trail{{Detail: "tools/list", Outcome: Refused, Code: -31004, RequestID: "req-1"}},
		},
		"a failure": {
			serve: func(context.Context, *Exchange) error { return errors.New("broken") },
			send:  func() got { return f.modern("tools/list", "", "") },
			want:  []Trail{{Detail: "tools/list", Outcome: Failed, Code: -32603, RequestID: "req-1"}},
		},
		"a panic": {
			serve: func(context.Context, *Exchange) error { panic("on purpose") },
			send:  func() got { return f.modern("tools/list", "", "") },
			want:  []Trail{{Detail: "tools/list", Outcome: Panicked, Code: -32603, RequestID: "req-1"}},
		},
		"not admitted": {
			admit: func(*Exchange) error {
				return fault.New(fault.RateLimited, "slow down").WithRetryAfter(1500 * time.Millisecond)
			},
			send: func() got { return f.modern("tools/list", "", "") },
			want: []Trail{{Outcome: Refused, Code: -31005, RequestID: "req-1"}},
		},
		"nobody known": {
			who: func(*http.Request) (*Principal, error) {
				return nil, &Challenge{Err: fault.New(fault.Unauthenticated, "who?"), Header: "Bearer"}
			},
			send: func() got { return f.modern("tools/list", "", "") },
			want: []Trail{{Outcome: Refused, Code: -31014, RequestID: "req-1"}},
		},
		"a foreign origin": {
			send: func() got { return f.post(`{}`, evil) },
			want: []Trail{{Outcome: Refused, Code: -31013, RequestID: "req-1"}},
		},
		"no JSON": {
			send: func() got { return f.post(`{`, nil) },
			want: []Trail{{Outcome: Refused, Code: -32700, RequestID: "req-1"}},
		},
		"a batch, each message": {
			serve: func(_ context.Context, x *Exchange) error {
				if x.Msg.Method == "tools/list" {
					return fault.New(fault.UpstreamUnavailable, "away")
				}
				return x.Result([]byte(`{}`))
			},
			send: func() got {
				return f.legacy(session, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`)
			},
			want: []Trail{{Detail: "ping", Outcome: OK}, {Detail: "tools/list", Outcome: Failed, Code: -31001}},
		},
		"a notification asks for nothing": {
			send: func() got {
				return f.legacy(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			},
		},
	} {
		g.serve, g.admit, g.identify = c.serve, c.admit, c.who
		answer := c.send()
		g.serve, g.admit, g.identify = nil, nil, nil
		trails := map[string]Trail{}
		all := g.recorded()
		for _, tr := range all {
			trails[tr.Detail] = tr
		}
		if len(all) != len(c.want) {
			t.Errorf("%s: %d records: %+v", name, len(all), all)
			continue
		}
		for _, want := range c.want {
			got := trails[want.Detail]
			if got.Outcome != want.Outcome || got.Code != want.Code || got.RequestID != want.RequestID {
				t.Errorf("%s: recorded %+v, want %+v", name, got, want)
			}
			if got.Began.IsZero() || got.Source != "127.0.0.1" || got.Outcome == OK && got.Out != int64(len(answer.body)) && len(c.want) == 1 {
				t.Errorf("%s: recorded %+v of %d bytes", name, got, len(answer.body))
			}
		}
		if len(c.want) == 1 && c.want[0].RequestID != answer.header.Get("X-Request-Id") {
			t.Errorf("%s: header X-Request-Id %q", name, answer.header.Get("X-Request-Id"))
		}
	}
}

func TestAnAnswerNobodyWaitsForIsRecordedAsCancelled(t *testing.T) {
	g := &rooms{serve: func(ctx context.Context, _ *Exchange) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	f := open(t, g)
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range modernHeaders("tools/call", "n") {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := f.client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	eventually(t, "the call under way", func() bool { return len(g.reached()) == 1 })
	hangUp()
	<-done
	var got []Trail
	eventually(t, "a record", func() bool { got = append(got, g.recorded()...); return len(got) > 0 })
	if got[0].Outcome != Cancelled || got[0].Detail != "tools/call" {
		t.Errorf("recorded %+v", got)
	}
}

func TestOverStdioEveryRequestIsRecordedOnce(t *testing.T) {
	g := &rooms{serve: func(_ context.Context, x *Exchange) error {
		if x.Msg.Method == mcp.Ping {
			panic("on purpose")
		}
		return x.Result([]byte(`{}`))
	}}
	f := build(t, g)
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"ping"}` + "\n" +
		`{` + "\n")
	if err := f.h.ServeStdio(t.Context(), "default", in, io.Discard, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, tr := range g.recorded() {
		got[tr.Detail] += tr.Outcome
		if tr.Source != "" || tr.Began.IsZero() || tr.Out == 0 {
			t.Errorf("recorded %+v", tr)
		}
	}
	if len(got) != 4 || got["initialize"] != OK || got["tools/list"] != OK || got["ping"] != Panicked || got[""] != Refused {
		t.Errorf("recorded %v", got)
	}
}

// Checklist 78.
func TestAnErrorSaysHowToIdentifyAndWhenToComeBack(t *testing.T) {
	g := &rooms{identify: func(*http.Request) (*Principal, error) {
		return nil, &Challenge{Err: fault.New(fault.Unauthenticated, "no token"), Header: `Bearer resource_metadata="https://x/y"`}
	}}
	f := open(t, g)
	for _, answer := range []got{
		f.modern("tools/list", "", ""),
		f.legacy("s", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
		f.send(http.MethodGet, "/mcp", "", map[string]string{"Mcp-Session-Id": "s", "Accept": "text/event-stream"}),
		f.send(http.MethodDelete, "/mcp", "", map[string]string{"Mcp-Session-Id": "s"}),
	} {
		if answer.status != http.StatusUnauthorized || answer.header.Get("WWW-Authenticate") != `Bearer resource_metadata="https://x/y"` || answer.code(t) != -31014 {
			t.Errorf("%d %v %s", answer.status, answer.header, answer.body)
		}
	}
	g.identify = nil
	g.admit = func(*Exchange) error {
		return fault.New(fault.RateLimited, "slow down").WithRetryAfter(1500 * time.Millisecond)
	}
	answer := f.modern("tools/list", "", "")
	if answer.status != http.StatusTooManyRequests || answer.header.Get("Retry-After") != "2" || answer.code(t) != -31005 {
		t.Errorf("%d %v %s", answer.status, answer.header, answer.body)
	}
}

func TestATallyIsOneForAllTheTokensOfAPrincipal(t *testing.T) {
	o := NewOngoing()
	one, two := &Principal{Key: [32]byte{1}, Tally: o.Tally([32]byte{1})}, &Principal{Key: [32]byte{1}, Tally: o.Tally([32]byte{1})}
	if one.tally() != two.tally() || o.Tally([32]byte{2}) == one.tally() {
		t.Fatal("tallies are mixed up")
	}
	for i := range 5 * sweepTallies {
		o.Tally([32]byte{byte(i), byte(i >> 8), 9})
	}
	if one.tally() != o.Tally([32]byte{1}) {
		t.Error("a tally that is in use was replaced")
	}
}
