package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
)

// reloaded is the gateway that takes over from h, under a document with more lines.
func (h *house) reloaded(u *up, more string) *house {
	h.t.Helper()
	doc, err := config.Parse("test.yaml", []byte("upstreams:\n  u: {url: '"+u.url+"'"+more+"}\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		h.t.Fatal(err)
	}
	g, err := New(doc, Version{Name: "penstock", Version: "test"}, slog.New(slog.DiscardHandler), Storage{}, h.Gateway)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	cancel()
	h.Retire(ctx, g)
	return &house{g, h.t}
}

// A parked call survives a reload as its upstream does.
func TestAParkedCallSurvivesAReload(t *testing.T) {
	heard := make(chan string, 4)
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		heard <- c.reply("1")
		c.done("done")
	})
	h := serving(t, map[string]*up{"u": u.up})
	q := h.asking("").round(t)
	after := h.reloaded(u.up, "")
	if g := after.asking(q.answered(accept)); g.text(t) != "done" || !strings.Contains(<-heard, "accept") {
		t.Errorf("%s", g.body)
	}
	q = after.asking("").round(t)
	last := after.reloaded(u.up, ", timeout: 7s") // another upstream, now
	if got := receive(t, "an answer", heard); !strings.Contains(got, "cancel") {
		t.Errorf("the upstream heard %s", got)
	}
	if g := last.asking(q.answered(accept)); g.code(t) != -32602 || len(u.got("tools/call")) != 2 {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
	if r, w, k := last.parks.State(); r+w != 0 {
		t.Errorf("%d running, %d waiting, %d kept", r, w, k)
	}
}

func TestAClosedGatewayEndsWhatIsParked(t *testing.T) {
	heard := make(chan string, 4)
	u := talks(func(c *talk) {
		c.ask("1", askForm)
		heard <- c.reply("1")
		<-c.ctx.Done()
	})
	h := serving(t, map[string]*up{"u": u.up})
	h.asking("").round(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, "an answer", heard); !strings.Contains(got, "cancel") {
		t.Errorf("the upstream heard %s", got)
	}
	receive(t, "the cancel", u.gone)
	if r, w, k := h.parks.State(); r+w+k != 0 {
		t.Errorf("%d running, %d waiting, %d kept", r, w, k)
	}
}

// Of a call that waits on another instance it is said that it is there; of one
// that is nowhere, that it is gone.
func TestAParkOfAnotherInstanceIsElsewhere(t *testing.T) {
	h := serving(t, map[string]*up{"u": talks(oneForm).up})
	bound := relay.Binding{Principal: h.principal.Key, Server: "default", Method: "tools/call", Name: "u__add", Upstream: "u"}
	for instance, code := range map[string]int{"another": -31010, "": -32602} {
		ticket := relay.Ticket{Kind: relay.Parked, Round: 1, Instance: instance, ID: "gone", Arguments: relay.Digest(nil)}
		if g := h.asking(`"requestState":"` + h.sealer.SealTicket(ticket, bound) + `","inputResponses":{}`); g.code(t) != code || g.status != 200 {
			t.Errorf("instance %q: HTTP %d %s", instance, g.status, g.body)
		}
	}
}

// Checklist 7.1: who has no name is never asked, for it would be anybody's answer.
func TestAnonymousClientsAreNotAsked(t *testing.T) {
	u := talks(oneForm)
	h := serving(t, map[string]*up{"u": u.up})
	h.principal = &north.Principal{Key: auth.Key(auth.IssuerAnonymous, "", "anonymous"), Name: "anonymous"}
	if g := h.asking(""); !strings.Contains(g.text(t), `"error"`) {
		t.Errorf("%s", g.body)
	}
	for _, i := range u.got("initialize") {
		if !strings.Contains(i.body, `"capabilities":{}`) {
			t.Errorf("%s", i.body)
		}
	}
	if s := h.scope(&north.Exchange{Principal: h.principal}); s != (catalog.Scope{Principal: h.principal.Key}) {
		t.Errorf("%+v", s)
	}
}

const elicitURLs = `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://h/1","message":"a\u0062"},{"mode":"url","elicitationId":"e2","url":"https://h/2","message":"b"}]}}}`

// Checklist 6.2: a refusal that sends the user to a URL is a question to a modern
// client, and once it is accepted the call is made anew.
func TestARefusalUntilAURLWasVisited(t *testing.T) {
	u := &up{legacy: true, on: answers("tools/call", 200, elicitURLs)}
	h := serving(t, map[string]*up{"u": u})
	first := h.asking(`"arguments":{"a":1}`)
	q := first.round(t)
	if len(q.Result.Requests) != 2 || strings.Contains(first.body, "elicitationId") || strings.Contains(first.body, "-32042") ||
		!strings.Contains(first.body, `{"method":"elicitation/create","params":{"mode":"url","url":"https://h/1","message":"a\u0062"}}`) {
		t.Errorf("%s", first.body)
	}
	// Again, and then it runs.
	second := h.asking(`"arguments":{"a":1},` + q.answered(`{"action":"accept"}`)).round(t)
	if g := h.asking(`"arguments":{"a":2},` + second.answered(`{"action":"accept"}`)); g.code(t) != -32602 {
		t.Errorf("%s", g.body)
	}
	if g := h.asking(`"arguments":{"a":1},` + second.answered(`{"content":{}}`)); g.code(t) != -32602 {
		t.Errorf("%s", g.body)
	}
	for _, action := range []string{"decline", "cancel"} {
		if g := h.asking(`"arguments":{"a":1},` + second.answered(`{"action":"`+action+`"}`)); !strings.HasPrefix(g.text(t), "error: ") {
			t.Errorf("%s", g.body)
		}
	}
	if n := len(u.got("tools/call")); n != 2 {
		t.Errorf("%d calls", n)
	}
	u.set(answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done"}]}}`))
	if g := h.asking(`"arguments":{"a":1},` + second.answered(`{"action":"accept"}`)); g.text(t) != "done" {
		t.Errorf("%s", g.body)
	}
	if body := u.last(t, "tools/call").body; strings.Contains(body, "requestState") || strings.Contains(body, "inputResponses") {
		t.Errorf("%s", body)
	}
	// Not for ever.
	u.set(answers("tools/call", 200, elicitURLs))
	q = h.asking("").round(t)
	for range maxRounds - 1 {
		q = h.asking(q.answered(`{"action":"accept"}`)).round(t)
	}
	if g := h.asking(q.answered(`{"action":"accept"}`)); !strings.HasPrefix(g.text(t), "error: ") {
		t.Errorf("%s", g.body)
	}
	// What is no question is none.
	for _, data := range []string{`{}`, `{"elicitations":[]}`, `{"elicitations":[{"mode":"form","url":"x"}]}`, `{"elicitations":[{"mode":"url"}]}`, `{"elicitations":5}`, `null`} {
		u.set(answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"m","data":`+data+`}}`))
		if g := h.asking(""); g.code(t) != -31007 {
			t.Errorf("%s: HTTP %d %s", data, g.status, g.body)
		}
	}
	// prompts/get and resources/read have no failed tool.
	u.set(answers("prompts/get", 200, elicitURLs))
	q = h.asks(t.Context(), "prompts/get", "u__greet", everything, `"name":"u__greet"`).round(t)
	if g := h.asks(t.Context(), "prompts/get", "u__greet", everything, `"name":"u__greet",`+q.answered(`{"action":"decline"}`)); g.code(t) != -32603 {
		t.Errorf("%s", g.body)
	}
}

func TestARefusalUntilAURLWasVisitedByEra(t *testing.T) {
	u := &up{legacy: true, on: answers("tools/call", 200, elicitURLs)}
	h := serving(t, map[string]*up{"u": u})
	for _, caps := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`} {
		g := h.asks(t.Context(), "tools/call", "u__add", caps, `"name":"u__add"`)
		if g.status != 400 || g.code(t) != -32021 || !strings.Contains(g.body, `"data":{"requiredCapabilities":{"elicitation":{"url":{}}}}`) {
			t.Errorf("%s: HTTP %d %s", caps, g.status, g.body)
		}
	}
	for _, c := range []struct {
		revision, caps string
		code           int
	}{
		{"2025-11-25", `{"elicitation":{"url":{}}}`, -32042},
		{"2025-11-25", `{"elicitation":{}}`, 0},
		{"2025-06-18", `{"elicitation":{"url":{}}}`, 0},
	} {
		_, send := h.session(c.revision, c.caps)
		g := send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add"}}`)
		if g.code(t) != c.code || strings.Contains(g.body, `"isError":true`) != (c.code == 0) || strings.Contains(g.body, "elicitationId") != (c.code != 0) {
			t.Errorf("%s %s: HTTP %d %s", c.revision, c.caps, g.status, g.body)
		}
	}
}

// who is the caller of a request in a crowd.
type who struct{}

// crowd is a gateway that learns from a request's context who calls.
type crowd struct {
	*Gateway
	people map[string]*north.Principal
}

func (c *crowd) Identify(r *http.Request) (*north.Principal, error) {
	name, _ := r.Context().Value(who{}).(string)
	return c.people[name], nil
}

// crowd lets ann and bob call, at the same time.
func (h *house) crowd() {
	c := &crowd{h.Gateway, map[string]*north.Principal{}}
	for _, name := range []string{"ann", "bob"} {
		c.people[name] = &north.Principal{Key: auth.Key(auth.IssuerLocal, "", name), Name: name}
	}
	o := north.Options{Servers: map[string]string{"default": "/mcp"}, RequestBytes: 1 << 20, Log: slog.New(slog.DiscardHandler)}
	h.handler = north.New(o, c, h.sessions)
}

func (h *house) asksFor(name, params string, more ...string) out {
	h.t.Helper()
	return h.asks(context.WithValue(h.t.Context(), who{}, name), "tools/call", "u__add", everything, `"name":"u__add",`+params, more...)
}

// For any interleaving of two principals' calls and questions, no message crosses
// from one to the other: each call says its secret in every question and event,
// and hears what belongs to it alone.
func TestNothingCrossesBetweenPrincipals(t *testing.T) {
	pick := func(body, after string) string {
		_, rest, _ := strings.Cut(body, after)
		s, _, _ := strings.Cut(rest, `"`)
		return s
	}
	u := talks(func(c *talk) {
		secret := pick(c.body, `"secret":"`)
		rng := rand.New(rand.NewPCG(uint64(len(secret)), uint64(secret[len(secret)-1])))
		heard := []string{secret}
		for round := range 1 + rng.IntN(3) {
			var ids []string
			for q := range 1 + rng.IntN(2) {
				id := fmt.Sprintf(`"%s/%d/%d"`, secret, round, q)
				c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + c.id + `,"progress":1,"message":"` + secret + `"}}`)
				c.ask(id, `"method":"elicitation/create","params":{"message":"`+secret+`","requestedSchema":{}}`)
				ids = append(ids, id)
			}
			for _, id := range ids {
				heard = append(heard, pick(c.reply(id), `"secret":"`))
			}
		}
		c.done(strings.Join(heard, " "))
	})
	h := serving(t, map[string]*up{"u": u.up}, "limits: {parked_per_principal: 100}")
	h.crowd()
	other := map[string]string{"ann": "bob", "bob": "ann"}
	var wg sync.WaitGroup
	for _, name := range []string{"ann", "bob"} {
		for i := range 12 {
			wg.Go(func() {
				secret := fmt.Sprintf("%s/%s", name, strings.Repeat("x", i+1)) // no sealed state holds a slash
				params := `"arguments":{"secret":"` + secret + `"},`
				send := func(more string) out {
					return h.asksFor(name, params+more, `,"progressToken":"`+secret+`"`)
				}
				g := send("")
				for strings.Contains(g.body, "input_required") {
					q := g.round(t)
					if strings.Contains(g.body, other[name]+"/") || !strings.Contains(g.body, secret) {
						t.Errorf("%s saw %s", secret, g.body)
					}
					mine := q.answered(`{"action":"accept","content":{"secret":"` + secret + `"}}`)
					// The other principal cannot answer in this one's place.
					if x := h.asksFor(other[name], params+q.answered(`{"action":"accept","content":{"secret":"stolen"}}`), ""); x.code(t) != -32602 {
						t.Errorf("%s went on with the call of %s: %s", other[name], name, x.body)
					}
					g = send(mine)
				}
				for _, word := range strings.Fields(g.text(t)) {
					if word != secret {
						t.Errorf("the call of %s heard %q", secret, word)
					}
				}
			})
		}
	}
	wg.Wait()
}
