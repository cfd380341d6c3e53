package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/north"
)

// overseen are the streams that stand, whose callers must stay let in: a token
// that expires or is revoked ends what it opened (DESIGN section 11).
type overseen struct {
	mu      sync.Mutex // guards streams
	streams map[*watched]struct{}
}

// watched is one stream and who opened it.
type watched struct {
	who *auth.Principal
	end context.CancelCauseFunc
}

// whileGood ends ctx with the reason when the caller of a stream is not let in any
// more. done must be called when the stream ends.
func (g *Gateway) whileGood(ctx context.Context, x *north.Exchange) (good context.Context, done func()) {
	c := callerOf(x)
	if c == nil || x.Principal == g.local {
		return ctx, func() {}
	}
	good, end := context.WithCancelCause(ctx)
	w := &watched{who: c.Principal, end: end}
	o := g.overseen
	o.mu.Lock()
	if o.streams == nil {
		o.streams = map[*watched]struct{}{}
	}
	o.streams[w] = struct{}{}
	o.mu.Unlock()
	return good, func() {
		end(nil)
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.streams, w)
	}
}

// oversee ends the streams of those who would not be let in now. It is called once
// a second, and judges by the document of this gateway.
func (g *Gateway) oversee() {
	o := g.overseen
	o.mu.Lock()
	defer o.mu.Unlock()
	for w := range o.streams {
		if err := g.stillGood(w.who); err != nil {
			w.end(err)
		}
	}
}

// errNobody is why a stream of a caller ends that the document does not know.
var errNobody = errors.New("callers have no names any more")

func (g *Gateway) stillGood(p *auth.Principal) error {
	if g.auth != nil {
		return g.auth.Check(p)
	}
	if p != auth.Local() && p != auth.Anonymous() {
		return errNobody
	}
	return nil
}
