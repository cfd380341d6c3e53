package relay

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// Visit is a request that waits at a park for the next round of questions, or
// for the end of the call. It is used by one goroutine.
type Visit struct {
	p      *Park
	round  int // that the request answers; 0: it began the call
	can    func(*Question) bool
	events chan *wire.Answer // handed over one by one, each taken before the next
	taken  chan struct{}
	left   chan struct{} // closed when the visit is over
}

func (p *Park) visit(round int, can func(*Question) bool) *Visit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.visitLocked(round, can)
}

func (p *Park) visitLocked(round int, can func(*Question) bool) *Visit {
	v := &Visit{p: p, round: round, can: can, events: make(chan *wire.Answer), taken: make(chan struct{}), left: make(chan struct{})}
	p.visits = append(p.visits, v)
	if !p.over && len(p.offers) == len(p.answers) {
		p.disarm() // the client is back
	}
	return v
}

// Call is the upstream's side of the call.
func (v *Visit) Call() Call { return v.p.s.Call }

// Wait returns what comes next in the call. Notifications on the way there are
// given to event, on this goroutine and in order; each is valid during the call
// only. When ctx ends, or event fails, the client is gone: a call that has asked
// nothing yet is cancelled at once, and another when nobody comes back for it
// within a few seconds.
func (v *Visit) Wait(ctx context.Context, event func(*wire.Answer) error) (turn Turn, err error) {
	stays := false
	defer func() { v.leave(stays) }()
	var window *time.Timer
	var closes <-chan time.Time
	ripe := false
	for {
		next, ok, changed, refused := v.look(ripe)
		for _, q := range refused {
			// That it cannot be told is for the call itself to find out.
			_ = v.p.s.Call.Respond(v.p.ctx, q.refusal())
		}
		if ok {
			stays = true
			return next, nil
		}
		ripe = false
		if window == nil && v.p.asks() {
			window = time.NewTimer(siblings)
			defer window.Stop()
			closes = window.C
		}
		select {
		case <-changed:
		case s := <-v.events:
			if err := v.take(s, event); err != nil {
				return Turn{}, err
			}
		case <-closes:
			ripe, closes, window = true, nil, nil
		case <-ctx.Done():
			return Turn{}, context.Cause(ctx)
		}
	}
}

// take gives one notification to the request. The upstream's reader waits for it.
func (v *Visit) take(s *wire.Answer, event func(*wire.Answer) error) error {
	defer func() { v.taken <- struct{}{} }()
	return event(s)
}

// look returns what the visit waits for, if it is there. ripe says that the
// siblings of a question have had their time.
func (v *Visit) look(ripe bool) (turn Turn, ok bool, changed <-chan struct{}, refused []*asked) {
	p := v.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if ripe && !p.over && len(p.open) > 0 && v.round == len(p.offers) {
		refused = p.offer(v.can)
	}
	turn.Asked = p.minted > 0
	switch {
	case v.round < len(p.offers):
		turn.Offer = p.offers[v.round]
	case !p.over:
		return turn, false, p.changed, refused
	case p.err == nil && p.given:
		turn.Err = ErrTaken
	default:
		turn.Final, turn.Err = p.final, p.err
		p.given = p.final != nil && p.final.Once()
	}
	return turn, true, p.changed, refused
}

// asks reports whether there are questions to make a round of.
func (p *Park) asks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) > 0 && len(p.offers) == len(p.answers) && !p.over
}

// leave ends the visit. A client that does not stay has gone without an answer.
func (v *Visit) leave(stays bool) {
	close(v.left)
	p := v.p
	p.mu.Lock()
	for i, w := range p.visits {
		if w == v {
			p.visits = append(p.visits[:i], p.visits[i+1:]...)
			break
		}
	}
	if stays || p.over || len(p.visits) > 0 || len(p.offers) > len(p.answers) {
		p.mu.Unlock()
		return
	}
	if len(p.offers) > 0 {
		p.arm(grace, p.abandon)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.abandon()
}

// Unread says that a round could not be written to the client. Nobody can answer
// the first one, then; later ones can be fetched again by the retry before.
func (v *Visit) Unread() {
	p := v.p
	p.mu.Lock()
	first := len(p.offers) == 1 && len(p.answers) == 0
	p.mu.Unlock()
	if first {
		p.end(errAbandoned, 0)
		p.drop()
	}
}
