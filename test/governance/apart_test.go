package governance_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// crowd is how many principals the interleavings take theirs from. Each takes new ones, as long as there are any.
const crowd = 1200

// street is what the interleavings happen on: gateways, and behind them two upstreams with one credential for all.
type street struct {
	urls           []string
	http           *http.Client
	ears           *ears
	legacy, modern *keeper
	log            *logBuffer

	next, nonces int
	done         map[string]int // how often what was done
}

// newStreet starts gateways until the test ends; state is where they keep what they share.
func newStreet(t *testing.T, gateways int, state string) *street {
	t.Helper()
	s := &street{ears: &ears{by: map[string]map[string]string{}}, legacy: newKeeper(t, true), modern: newKeeper(t, false), log: &logBuffer{}, done: map[string]int{}}
	for _, u := range []*keeper{s.legacy, s.modern} {
		u.admits = func(authorization []string) bool {
			if !slices.Equal(authorization, []string{sharedBearer}) {
				u.blame("a request came with %q", authorization)
			}
			return true
		}
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	s.http = &http.Client{Transport: transport}
	var doc strings.Builder
	fmt.Fprintf(&doc, `
state: %q
limits: {list_timeout: 10s, call_timeout: 60s, parked_per_principal: 100}
servers: {default: {page_size: 5}}
upstreams:
  l: {url: %q, credentials: {bearer: shared}, max_concurrent: 1000}
  m: {url: %q, credentials: {bearer: shared}, max_concurrent: 1000}
auth:
  api_keys:
`, state, s.legacy.URL+"/mcp", s.modern.URL+"/mcp")
	for i := range crowd {
		for n, key := range keysOf(i) {
			sum := sha256.Sum256([]byte(key))
			fmt.Fprintf(&doc, "    - {name: k%d-%d, hash: \"sha256:%s\", subject: p%d}\n", i, n, hex.EncodeToString(sum[:]), i)
		}
	}
	d, err := config.Parse("test.yaml", []byte(doc.String()), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for range gateways {
		s.urls = append(s.urls, s.serve(t, d))
	}
	return s
}

func (s *street) serve(t *testing.T, d *config.Document) string {
	store, err := penstock.OpenStore(t.Context(), d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	gw, err := penstock.New(d, penstock.WithStore(store), penstock.WithLogger(slog.New(slog.NewTextHandler(s.log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = gw.Run(ctx) })
	front := httptest.NewServer(gw.Handler())
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = gw.Close(end)
		wg.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the gateways' log:\n%s", s.log.tail(40))
		}
	})
	return front.URL + "/mcp"
}

func keysOf(principal int) [2]string {
	return [2]string{fmt.Sprintf("key-%d-one", principal), fmt.Sprintf("key-%d-two", principal)}
}

func (s *street) party() *party {
	i := s.next % crowd
	s.next++
	return &party{name: fmt.Sprintf("p%d", i), keys: keysOf(i), ears: s.ears, http: s.http, urls: s.urls}
}

// step is one operation of one principal. What it cannot do, it leaves.
type step struct {
	What              string
	Who, Whom         int
	Key, At, Up, Pick int
}

// begins are steps that begin something, and goesOn those that go on with something, or try what is another's. What
// stands first is drawn most.
var (
	begins = []string{
		"ask", "ask in session", "hold", "hold in session", "initialize", "list", "steps", "subscribe", "get", "listen", "batch", "echo", "complete",
	}
	goesOn = []string{
		"other's events", "other's question", "other's call", "other's state", "answer in session", "answer", "cancel", "release",
		"other's stream", "end other's session", "other's cursor", "other's names", "other's session", "touch", "change", "delete", "other's batch",
	}
)

// theEnd is the last step of all.
const theEnd = "the end"

func drawStep(parties int, of []string) *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		who := rapid.IntRange(0, parties-1).Draw(t, "who")
		return step{
			What: rapid.SampledFrom(of).Draw(t, "what"), Who: who,
			Whom: (who + rapid.IntRange(1, parties-1).Draw(t, "whom")) % parties,
			Key:  rapid.IntRange(0, 1).Draw(t, "key"), At: rapid.IntRange(0, 1).Draw(t, "at"),
			Up: rapid.IntRange(0, 1).Draw(t, "up"), Pick: rapid.IntRange(0, 7).Draw(t, "pick"),
		}
	})
}

// Two principals with one upstream credential never see each other's sessions, lists, progress, questions or cached
// answers, and can do nothing to them: every marker of an upstream's session or answer is heard by one principal at most,
// whatever is another's is refused as what does not exist, and what anybody has under way ends as it should.
func TestPrincipalsWithOneUpstreamCredentialAreApart(t *testing.T) {
	t.Parallel()
	t.Run("one gateway", func(t *testing.T) {
		t.Parallel()
		s := newStreet(t, 1, "memory:")
		rapid.Check(t, s.interleave)
		s.shared(t)
	})
	t.Run("two gateways on one store", func(t *testing.T) {
		t.Parallel()
		s := newStreet(t, 2, pgtest.Database(t))
		rapid.Check(t, s.interleave)
		s.shared(t)
	})
}

// shared holds that what is public was read once for all, and that all trespasses were tried.
func (s *street) shared(t *testing.T) {
	t.Log(s.done)
	for _, what := range goesOn {
		if strings.Contains(what, "other's") && s.done[what] == 0 && !t.Failed() {
			t.Errorf("%q was never done", what)
		}
	}
	s.modern.mu.Lock()
	defer s.modern.mu.Unlock()
	if n := s.modern.fetches; n > 3*len(s.urls) {
		t.Errorf("the public list was read %d times", n)
	}
}

// interleave is one interleaving.
func (s *street) interleave(t *rapid.T) {
	n := rapid.SampledFrom([]int{2, 2, 3}).Draw(t, "principals")
	var todo []step
	for who := range n {
		todo = append(todo, step{What: "initialize", Who: who, Whom: (who + 1) % n, Pick: 1}, step{What: "list", Who: who, Whom: (who + 1) % n})
	}
	for range 2 {
		todo = append(todo, rapid.SliceOfN(drawStep(n, begins), 0, 10).Draw(t, "begin")...)
		todo = append(todo, rapid.SliceOfN(drawStep(n, goesOn), 0, 10).Draw(t, "go on")...)
	}
	w := &walk{T: t, street: s}
	for range n {
		w.all = append(w.all, s.party())
	}
	defer w.leave()
	for _, w.step = range append(todo, step{What: theEnd}) {
		w.acted = false
		w.do(w.all[w.step.Who], w.all[w.step.Whom])
		if w.acted {
			s.done[w.step.What]++
		}
		w.check() // always from here, or a failure that comes a step later would be taken for another
	}
}

// walk is an interleaving on its way.
type walk struct {
	*rapid.T
	*street
	all   []*party
	step  step
	acted bool // in this step
}

// check holds the invariant.
func (w *walk) check() {
	w.Helper()
	for _, leak := range w.ears.take() {
		w.Errorf("after %+v: %s", w.step, leak)
	}
	for _, u := range []*keeper{w.legacy, w.modern} {
		for _, f := range u.faults() {
			w.Errorf("after %+v: an upstream: %s", w.step, f)
		}
	}
	if w.Failed() {
		w.FailNow()
	}
}

// must ends the interleaving with what did not happen.
func (w *walk) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%+v: %v %q", w.step, err, w.ears.take())
	}
}

func (w *walk) send(p *party, q *request) *said {
	w.Helper()
	r, err := p.send(q)
	w.must(err)
	w.acted = true
	return r
}

func (w *walk) open(p *party, q *request) *live {
	w.Helper()
	l, err := p.open(q)
	w.must(err)
	w.acted = true
	return l
}

func (w *walk) nonce(p *party) string {
	w.nonces++
	n := fmt.Sprintf("mark-N%06d-", w.nonces)
	w.ears.own(p.name, n)
	return n
}

// holds is that an answer has texts.
func (w *walk) holds(r *said, texts ...string) {
	w.Helper()
	if r.Status != http.StatusOK || !holdsAll(r.message(), texts) {
		w.Fatalf("%+v: want %q, got %v %q", w.step, texts, r, w.ears.take())
	}
}

// alike holds that a refusal of what is another's reads as that of what does not exist.
func (w *walk) alike(theirs, nobodys *said) {
	w.Helper()
	for _, r := range []*said{theirs, nobodys} {
		r.Header.Del("Date")
		r.Header.Del("X-Request-Id") // each request has another
	}
	if theirs.Status != nobodys.Status || theirs.Body != nobodys.Body || fmt.Sprint(theirs.Header) != fmt.Sprint(nobodys.Header) {
		w.Errorf("%+v: what is another's reads\n%v\nand what does not exist\n%v", w.step, theirs, nobodys)
	}
}

// refused is alike for two requests that must be refused with a status and a code; "": there is no code.
func (w *walk) refused(p *party, theirs, nobodys *request, status int, code string) {
	w.Helper()
	a, b := w.send(p, theirs), w.send(p, nobodys)
	w.alike(a, b)
	if a.Status != status || member(a.message(), "error", "code") != code {
		w.Errorf("%+v: want HTTP %d and code %q, got %v", w.step, status, code, a)
	}
}

func pick[E any](of []E, n int) (e E, ok bool) {
	if len(of) == 0 {
		return e, false
	}
	return of[n%len(of)], true
}

func drop[E comparable](of []E, e E) []E {
	return slices.DeleteFunc(of, func(o E) bool { return o == e })
}

// tool is a tool of the upstream of this step.
func (w *walk) tool(name string) string {
	if w.step.Up == 0 {
		return "l__" + name
	}
	return "m__" + name
}

func (w *walk) keeper() *keeper {
	if w.step.Up == 0 {
		return w.legacy
	}
	return w.modern
}

func named(tool, nonce string) string {
	return `"name":"` + tool + `","arguments":{"n":"` + nonce + `"}`
}

// do does the step of p; o is another.
func (w *walk) do(p, o *party) {
	st := w.step
	session, inSession := pick(p.sessions, st.Pick)
	switch st.What {
	case "initialize":
		w.initialize(p)
	case "list":
		w.list(p, session)
	case "echo", "steps":
		nonce := w.nonce(p)
		tool := w.tool(st.What)
		if inSession && st.Pick > 2 {
			q, _ := session.call(st.At, st.Key, "tools/call", named(tool, nonce)+`,"_meta":{"progressToken":"tok"}`)
			w.holds(w.send(p, q), nonce)
		} else {
			w.holds(w.send(p, modern(st.At, st.Key, "tools/call", tool, named(tool, nonce))), nonce)
		}
	case "complete":
		w.holds(w.send(p, modern(st.At, st.Key, "resources/read", w.keeper().uri(), `"uri":"`+w.keeper().uri()+`"`)), "mark-")
	case "batch":
		if i := slices.IndexFunc(p.sessions, func(s *northern) bool { return s.version == "2025-03-26" }); i >= 0 {
			session = p.sessions[i]
			nonce := w.nonce(p)
			ping, _ := session.call(0, 0, "ping", "")
			list, _ := session.call(0, 0, "resources/list", "")
			call, _ := session.call(0, 0, "tools/call", named(w.tool("echo"), nonce))
			if r := w.send(p, session.in(st.At, st.Key, "["+ping.body+","+list.body+","+call.body+"]")); r.Status != http.StatusOK || !strings.Contains(r.Body, nonce) {
				w.Errorf("%+v: %v", st, r)
			}
		}
	case "ask":
		w.ask(p)
	case "ask in session":
		if inSession && session.version == legacyVersion {
			w.askIn(p, session)
		}
	case "hold":
		nonce := w.nonce(p)
		call := w.open(p, modern(st.At, st.Key, "tools/call", w.tool("hold"), named(w.tool("hold"), nonce)))
		p.holds = append(p.holds, &heldCall{call: call, id: `"tools/call"`, nonce: nonce, at: w.keeper()})
		_, err := call.next("notifications/progress", nonce, `"tok"`)
		w.must(err)
	case "hold in session":
		if inSession {
			nonce := w.nonce(p)
			q, id := session.call(session.at, st.Key, "tools/call", named(w.tool("hold"), nonce)+`,"_meta":{"progressToken":"tok"}`)
			call := w.open(p, q)
			p.holds = append(p.holds, &heldCall{session: session, call: call, id: id, nonce: nonce, at: w.keeper()})
			_, err := call.next("notifications/progress", nonce, `"tok"`)
			w.must(err)
			w.event(p, call)
		}
	case "answer":
		if s, ok := pick(p.states, st.Pick); ok {
			w.answer(p, s)
		}
	case "answer in session":
		if q, ok := pick(p.questions, st.Pick); ok {
			w.answerIn(p, q)
		}
	case "release":
		if h, ok := pick(p.holds, st.Pick); ok {
			w.release(p, h)
		}
	case "cancel":
		if h, ok := pick(p.holds, st.Pick); ok {
			w.cancel(p, h)
		}
	case "get":
		if inSession && session.standing == nil {
			session.standing = w.open(p, session.in(session.at, st.Key, "").with(http.MethodGet))
			if session.standing.Status != http.StatusOK {
				w.Fatalf("%+v: HTTP %d", st, session.standing.Status)
			}
		}
	case "subscribe":
		if inSession {
			q, _ := session.call(session.at, st.Key, "resources/subscribe", `"uri":"`+w.keeper().uri()+`"`)
			w.holds(w.send(p, q), `"result":{}`)
			session.subscribed[w.keeper().uri()] = true
		}
	case "listen":
		if len(p.listens) == 0 {
			l := w.open(p, modern(st.At, st.Key, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:/shared","y:/shared"]}`))
			p.listens = append(p.listens, l)
			_, err := l.next("acknowledged", "x:/shared", "y:/shared")
			w.must(err)
		}
	case "touch":
		w.touch()
	case "change":
		w.acted = true
		w.keeper().touch(true)
	case "delete":
		if inSession {
			w.delete(p, session)
		}
	case theEnd:
		w.end()
	default:
		w.trespass(p, o, session)
	}
}

// event remembers an event id of a call's stream.
func (w *walk) event(p *party, call *live) {
	if id := call.lastID(); id != "" {
		p.eventIDs = append(p.eventIDs, id)
	}
}

func (w *walk) initialize(p *party) {
	if len(p.sessions) == 3 {
		return
	}
	w.nonces++ // no two sessions have ids in common, or one would cancel its own calls in trying another's
	version, caps := legacyVersion, `{"elicitation":{}}`
	switch {
	case w.step.Up == 0 && w.step.Pick%4 == 0:
		caps = `{}`
	case w.step.Up == 1:
		version = "2025-03-26"
	}
	r := w.send(p, &request{
		at: w.step.At, key: w.step.Key, verb: http.MethodPost,
		body: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":` + caps + `,"clientInfo":{"name":"c","version":"1"}}}`,
	})
	w.holds(r, version)
	s := &northern{id: r.Header.Get("Mcp-Session-Id"), version: version, at: w.step.At, ids: 1000 * w.nonces, subscribed: map[string]bool{}}
	if caps == `{}` {
		s.version = "2025-06-18" // which has neither batches nor events to come back to
	}
	p.sessions = append(p.sessions, s)
	q, _ := s.call(w.step.At, w.step.Key, "logging/setLevel", `"level":"debug"`)
	w.holds(w.send(p, q), `"result":{}`)
	w.same(p, s)
}

// same holds that a session of a client is the same at the upstream.
func (w *walk) same(p *party, s *northern) {
	w.Helper()
	nonce := w.nonce(p)
	q, _ := s.call(w.step.At, w.step.Key, "tools/call", named("l__echo", nonce))
	r := w.send(p, q)
	w.holds(r, nonce, "echo mark-L")
	_, after, _ := strings.Cut(r.message(), "echo ")
	marker := markers.FindString(after)
	if s.marker == "" {
		s.marker = marker
	}
	if s.marker != marker {
		w.Errorf("%+v: the session of %s at the upstream was %s and is %s", w.step, p.name, s.marker, marker)
	}
}

var lists = []string{"tools/list", "prompts/list", "resources/list"}

func (w *walk) list(p *party, s *northern) {
	method := lists[w.step.Pick%len(lists)]
	cursor, all := "", ""
	for range 10 {
		var q *request
		if s != nil && w.step.Pick > 2 {
			q, _ = s.call(w.step.At, w.step.Key, method, cursor)
		} else {
			q = modern(w.step.At, w.step.Key, method, "", cursor)
		}
		r := w.send(p, q)
		w.holds(r, `"result"`)
		all += r.message()
		next := textAt(r.message(), "result", "nextCursor")
		if next == "" {
			if !strings.Contains(all, "only_mark-L") && method != "resources/list" {
				w.Errorf("%+v: nothing of its own in %s", w.step, all)
			}
			for _, m := range markers.FindAllString(all, -1) {
				if strings.HasPrefix(m, "mark-L") && !slices.Contains(p.private, m) {
					p.private = append(p.private, m)
				}
			}
			return
		}
		p.cursors = append(p.cursors, cursorOf{method, next})
		cursor = `"cursor":"` + next + `"`
	}
	w.Errorf("%+v: the walk does not end", w.step)
}

// ask begins a call of a modern client that asks.
func (w *walk) ask(p *party) {
	nonce, tool := w.nonce(p), w.tool("ask")
	r := w.send(p, modern(w.step.At, w.step.Key, "tools/call", tool, named(tool, nonce)))
	w.holds(r, "input_required", nonce)
	s := &openState{tool: tool, nonce: nonce, at: w.step.At, state: textAt(r.message(), "result", "requestState")}
	var asked map[string]json.RawMessage
	_ = json.Unmarshal([]byte(member(r.message(), "result", "inputRequests")), &asked)
	for key := range asked {
		s.key = key
	}
	if s.key == "" || s.state == "" {
		w.Fatalf("%+v: %v", w.step, r)
	}
	p.states = append(p.states, s)
}

// answering is the retry of a call, with an answer of somebody.
func (s *openState) answering(at, key int, state, answer string) *request {
	return modern(at, key, "tools/call", s.tool, named(s.tool, s.nonce)+
		`,"requestState":"`+state+`","inputResponses":{"`+s.key+`":{"action":"accept","content":{"a":"`+answer+`"}}}`)
}

func (w *walk) answer(p *party, s *openState) {
	w.Helper()
	p.states = drop(p.states, s)
	w.holds(w.send(p, s.answering(s.at, w.step.Key, s.state, "of "+p.name)), s.nonce, "of "+p.name)
}

func (w *walk) askIn(p *party, s *northern) {
	nonce := w.nonce(p)
	q, _ := s.call(s.at, w.step.Key, "tools/call", named(w.tool("ask"), nonce))
	call := w.open(p, q)
	asked, err := call.next("elicitation/create", nonce)
	w.must(err)
	w.event(p, call)
	p.questions = append(p.questions, &openQuestion{session: s, call: call, id: member(asked, "id"), nonce: nonce})
}

func answerOf(id, answer string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"a":"` + answer + `"}}}`
}

func (w *walk) answerIn(p *party, q *openQuestion) {
	w.Helper()
	p.questions = drop(p.questions, q)
	if r := w.send(p, q.session.in(q.session.at, w.step.Key, answerOf(q.id, "of "+p.name))); r.Status != http.StatusAccepted {
		w.Errorf("%+v: %v", w.step, r)
	}
	_, err := q.call.next(`"result"`, "asked", q.nonce, "of "+p.name)
	w.must(err)
	q.call.end()
}

func (w *walk) release(p *party, h *heldCall) {
	w.Helper()
	p.holds = drop(p.holds, h)
	w.acted = true
	h.at.release(h.nonce)
	_, err := h.call.next(`"result"`, "held", h.nonce)
	w.must(err)
	h.call.end()
	if h.at.gaveUp(h.nonce) {
		w.Errorf("%+v: the call of %s was given up", w.step, p.name)
	}
}

// cancel ends a call as its client does.
func (w *walk) cancel(p *party, h *heldCall) {
	p.holds = drop(p.holds, h)
	if h.session != nil {
		if r := w.send(p, h.session.in(h.session.at, w.step.Key, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+h.id+`}}`)); r.Status != http.StatusAccepted {
			w.Errorf("%+v: %v", w.step, r)
		}
	} else {
		h.call.close()
	}
	w.gone(h)
}

// gone waits until an upstream knows that a call was given up.
func (w *walk) gone(h *heldCall) {
	w.Helper()
	for end := time.Now().Add(apartWait); !h.at.gaveUp(h.nonce); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%+v: the upstream was not told of the end of a call", w.step)
		}
	}
	h.call.end()
}

// touch has the shared resource of an upstream change, of which everybody is told who asked for that.
func (w *walk) touch() {
	uri := w.keeper().uri()
	var told []*live
	for _, p := range w.all {
		told = append(told, p.listens...)
		for _, s := range p.sessions {
			if s.standing != nil && s.subscribed[uri] {
				told = append(told, s.standing)
			}
		}
	}
	w.keeper().touch(false)
	w.acted = w.acted || len(told) > 0
	for _, l := range told {
		_, err := l.next("notifications/resources/updated", uri)
		w.must(err)
	}
}

// delete ends a session, with all that is under way in it.
func (w *walk) delete(p *party, s *northern) {
	at := w.step.At
	for _, h := range slices.Clone(p.holds) {
		if h.session == s {
			at = s.at // whose calls these are
			p.holds = drop(p.holds, h)
			defer w.gone(h)
		}
	}
	for _, q := range slices.Clone(p.questions) {
		if q.session == s {
			at = s.at
			p.questions = drop(p.questions, q)
			defer q.call.end()
		}
	}
	if r := w.send(p, s.in(at, w.step.Key, "").with(http.MethodDelete)); r.Status/100 != 2 {
		w.Errorf("%+v: %v", w.step, r)
	}
	p.sessions = drop(p.sessions, s)
	if s.standing != nil {
		s.standing.end()
	}
	q, _ := s.call(at, w.step.Key, "ping", "") // another gateway may know it for two seconds yet
	if r := w.send(p, q); r.Status != http.StatusNotFound {
		w.Errorf("%+v: a session that was ended: %v", w.step, r)
	}
}

// end completes what is under way, which nobody else has changed.
func (w *walk) end() {
	for _, p := range w.all {
		for len(p.holds) > 0 {
			w.release(p, p.holds[0])
		}
		for len(p.states) > 0 {
			w.answer(p, p.states[0])
		}
		for len(p.questions) > 0 {
			w.answerIn(p, p.questions[0])
		}
		for _, s := range p.sessions {
			w.same(p, s)
		}
	}
	for w.step.Up = range 2 {
		w.touch() // what was told before it has arrived then
	}
	for len(w.all) > 0 && len(w.all[0].sessions) > 0 {
		w.delete(w.all[0], w.all[0].sessions[0]) // the others go on
	}
	for _, p := range w.all {
		for _, s := range p.sessions {
			w.same(p, s)
		}
	}
}

// leave ends what is left, however the interleaving ended.
func (w *walk) leave() {
	for _, p := range w.all {
		for _, h := range p.holds {
			h.at.release(h.nonce)
			h.call.end()
		}
		for _, q := range p.questions {
			q.call.end()
		}
		for _, l := range p.listens {
			l.end()
		}
		for _, s := range p.sessions {
			if s.standing != nil {
				s.standing.end()
			}
			_, _ = p.send(s.in(s.at, 0, "").with(http.MethodDelete))
		}
	}
}
