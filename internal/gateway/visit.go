package gateway

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// waits says how long a call waits for a user who agreed to do something at a
// URL: agreeing is not having done it (checklist 7.6).
type waits struct{ first, most, all time.Duration }

var usualWaits = waits{first: 2 * time.Second, most: 15 * time.Second, all: 90 * time.Second}

// visit is where a call sent its user, over all its rounds.
type visit struct {
	agreements []agreement
	again      []agreement // those that this round repeats
	settled    int         // agreements of the rounds before
	since      time.Time   // of the first repetition
	wait       time.Duration
}

// agreement is the user's consent to a URL. The same URL is not asked for again.
type agreement struct {
	id           string // the elicitation's, which only this client knows
	url, message []byte // raw
	answer       []byte // raw result
}

var (
	urlPath    = []string{"url"}
	actionPath = []string{"action"}
)

// begin starts a round.
func (v *visit) begin() { v.again, v.settled = v.again[:0], len(v.agreements) }

// agreed returns the answer that the user gave to the same URL, or nil.
func (v *visit) agreed(params []byte) []byte {
	url := at(params, urlPath)
	for i := range v.agreements {
		if a := &v.agreements[i]; bytes.Equal(a.url, url) {
			if i < v.settled {
				v.again = append(v.again, *a)
			}
			return a.answer
		}
	}
	return nil
}

// note remembers an answer, if it is a consent.
func (v *visit) note(params []byte, id string, answer []byte) {
	if action, err := wire.String(at(answer, actionPath)); err != nil || action != "accept" {
		return
	}
	v.agreements = append(v.agreements, agreement{
		id: id, url: bytes.Clone(at(params, urlPath)), message: bytes.Clone(at(params, messagePath)), answer: bytes.Clone(answer),
	})
}

// patient reports whether there is time to wait once more.
func (v *visit) patient(w waits) bool {
	if v.since.IsZero() {
		v.since = time.Now()
	}
	return time.Since(v.since)+max(v.wait, w.first) <= w.all
}

// next is how long to wait this time.
func (v *visit) next(w waits) time.Duration {
	now := max(v.wait, w.first)
	v.wait = min(2*now, w.most)
	return now
}

// visitFirst ends a call whose user is still busy elsewhere, in the words of
// 2025-11-25, and keeps where it stood for when the client calls again.
func (o *outbound) visitFirst(r *round) error {
	data := []byte(`{"elicitations":[`)
	for i, a := range o.talk.visit.again {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, `{"mode":"url","elicitationId":`...)
		data = wire.AppendString(data, a.id)
		data = append(append(data, `,"url":`...), a.url...)
		if a.message != nil {
			data = append(append(data, `,"message":`...), a.message...)
		}
		data = append(data, '}')
	}
	o.g.visits.keep(o.visitKey(), r, o.talk.visit.agreements)
	return replyError(o.x, urlElicitation, "upstream \""+o.t.Upstream+"\" waits for the user to finish at a URL; call again then", append(data, `]}`...))
}

// recall is the round that an equal call of the same session ended with because
// its user was busy, or nil.
func (o *outbound) recall() *round {
	if o.x.Session == nil || o.x.Revision < mcp.V20251125 || o.link.Era != mcp.Modern || !o.x.TakesQuestions() {
		return nil
	}
	r, agreements := o.g.visits.take(o.visitKey)
	o.talk.visit.agreements = agreements
	return r
}

func (o *outbound) visitKey() visitKey {
	return visitKey{
		session: o.x.Session.ID, upstream: o.t.Upstream, method: o.x.Method.Name, name: o.exposedInMessage(),
		arguments: sha256.Sum256(sentArguments(o.x)),
	}
}

// visitKey is the call that a state belongs to. Nobody else's call ever gets it.
type visitKey struct {
	session, upstream, method, name string
	arguments                       [sha256.Size]byte // digest of the bytes that the client sent
}

// Bounds of what is kept for calls that come again.
const (
	maxVisits    = 1000
	maxVisitSize = 16 << 10
	visitKept    = 10 * time.Minute
)

// visits keeps, in this process, where calls stood that ended with urlElicitation.
// It is safe for concurrent use; the zero value is empty.
type visits struct {
	mu    sync.Mutex // guards what follows
	by    map[visitKey]*list.Element
	order list.List // of *keptVisit, oldest first
}

// keptVisit is one call's place. Immutable.
type keptVisit struct {
	key        visitKey
	round      *round
	agreements []agreement
	until      time.Time
}

// keep remembers where a call stood, for visitKept; the oldest makes room. One
// that is too large is not remembered: its user is asked anew.
func (v *visits) keep(key visitKey, r *round, agreements []agreement) {
	size := len(r.responses) + len(r.state)
	for i := range agreements {
		size += len(agreements[i].url) + len(agreements[i].message) + len(agreements[i].answer)
	}
	if size > maxVisitSize {
		return
	}
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by == nil {
		v.by = map[visitKey]*list.Element{}
	}
	if old := v.by[key]; old != nil {
		v.remove(old)
	}
	for e := v.order.Front(); e != nil && (len(v.by) >= maxVisits || now.After(e.Value.(*keptVisit).until)); e = v.order.Front() {
		v.remove(e)
	}
	v.by[key] = v.order.PushBack(&keptVisit{key, r, agreements, now.Add(visitKept)})
}

// take returns what was kept for a call and forgets it.
func (v *visits) take(key func() visitKey) (*round, []agreement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.by) == 0 {
		return nil, nil // a digest costs as much as the arguments are long
	}
	e := v.by[key()]
	if e == nil {
		return nil, nil
	}
	k := v.remove(e)
	if time.Now().After(k.until) {
		return nil, nil
	}
	return k.round, k.agreements
}

// forget drops what was kept for a session that has ended.
func (v *visits) forget(session string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for e := v.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*keptVisit).key.session == session {
			v.remove(e)
		}
		e = next
	}
}

func (v *visits) remove(e *list.Element) *keptVisit {
	k := v.order.Remove(e).(*keptVisit)
	delete(v.by, k.key)
	return k
}
