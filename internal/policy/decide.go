package policy

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Target is one thing that is listed or called.
type Target struct {
	Server, Upstream string
	Kind             mcp.Kind // templates are judged as resources

	Name     string // as the server exposes it
	Original string // as the upstream names it

	// Names are all its names: canonical (before shortening), every alias and
	// the exposed one. A glob that fits any of them fits the target. Where
	// there are none, Name is the only one.
	Names []string

	// Annotations are a tool's, as a JSON object, where its upstream is
	// trusted; else nil.
	Annotations []byte
}

func (t *Target) fits(globs []pattern) bool {
	if len(t.Names) == 0 {
		return anyOf(globs, t.Name)
	}
	for _, name := range t.Names {
		if anyOf(globs, name) {
			return true
		}
	}
	return false
}

// Decision is the answer to a call.
type Decision struct {
	Allowed bool
	// Visible is whether the caller sees the target at all. A target that is
	// not visible is answered as one that does not exist; the refusal of a
	// visible one as "denied by policy".
	Visible bool
	// Depends, of Explain alone and where the arguments are not known: a call of
	// what is allowed so far may be refused for its arguments.
	Depends bool
	Rule    string // the id of the rule that decided; "" where none allowed it
	Why     string // one sentence for operators, without anything of the call
}

// Why a decision is as it is.
const (
	whyNoPolicy   = "there is no policy"
	whyAllowed    = "a rule allows it"
	whyDenied     = "a rule denies it"
	whyFailed     = "the condition of a rule that denies it failed, which denies"
	whyNotAllowed = "no rule allows it"
	whyMay        = "a rule allows it, depending on the arguments"
)

// Sees reports whether a target is visible while the arguments are not known:
// in lists, completions, subscriptions and polls. Without conditions it does
// not allocate. The target is not kept.
func (v *View) Sees(t *Target) bool {
	if v == nil {
		return true
	}
	c := v.consider(t)
	visible := c.sees(context.Background(), t)
	c.close()
	return visible
}

// Denies reports whether a rule denies a target while the arguments are not known:
// less than that no rule allows it. The target is not kept.
func (v *View) Denies(t *Target) bool {
	if v == nil {
		return false
	}
	c := v.consider(t)
	denied := c.denies(context.Background(), t)
	c.close()
	return denied
}

// Decide answers a call. args is the raw JSON object of its arguments, nil
// where it has none; it is decoded only for a condition that asks for it, and
// neither changed nor kept. A condition with a comprehension ends, as failed,
// with ctx. Without conditions it does not allocate.
func (v *View) Decide(ctx context.Context, t *Target, args []byte) Decision {
	if v == nil {
		return Decision{Allowed: true, Visible: true, Why: whyNoPolicy}
	}
	c := v.consider(t)
	d := c.decide(ctx, t, args)
	if !d.Allowed {
		c.forget()
		d.Visible = c.sees(ctx, t)
	}
	c.close()
	return d
}

// consideration is one decision about one target. It is used by one goroutine,
// and has to be closed.
type consideration struct {
	selection *selection
	lane      *lane
	kind      int

	args  []byte
	known bool
	frame *frame // made when a condition first has to be evaluated
}

func (v *View) consider(t *Target) consideration {
	return consideration{selection: v.selection, lane: v.lane(t.Server, t.Upstream), kind: kindOf(t.Kind)}
}

// sees: no deny matches with certainty, and some allow may match.
func (c *consideration) sees(ctx context.Context, t *Target) bool {
	if c.denies(ctx, t) {
		return false
	}
	k := &c.lane.kinds[c.kind]
	for i := range k.allow {
		if e := &k.allow[i]; t.fits(e.globs) {
			if o, _ := c.eval(ctx, t, e.rule.cond); o == yes || o == unknown {
				return true
			}
		}
	}
	return false
}

// denies: some deny matches with certainty.
func (c *consideration) denies(ctx context.Context, t *Target) bool {
	k := &c.lane.kinds[c.kind]
	for i := range k.deny {
		if e := &k.deny[i]; t.fits(e.globs) {
			if o, _ := c.eval(ctx, t, e.rule.cond); o == yes || o == failed {
				return true
			}
		}
	}
	return false
}

// decide: no deny is true or an error, and some allow is true. It leaves open
// whether what it refuses is visible; what it allows is.
func (c *consideration) decide(ctx context.Context, t *Target, args []byte) Decision {
	c.args, c.known = args, true
	k := &c.lane.kinds[c.kind]
	for i := range k.deny {
		if e := &k.deny[i]; t.fits(e.globs) {
			switch o, _ := c.eval(ctx, t, e.rule.cond); o {
			case yes:
				return Decision{Rule: e.rule.id, Why: whyDenied}
			case failed:
				return Decision{Rule: e.rule.id, Why: whyFailed}
			}
		}
	}
	for i := range k.allow {
		if e := &k.allow[i]; t.fits(e.globs) {
			if o, _ := c.eval(ctx, t, e.rule.cond); o == yes {
				return Decision{Allowed: true, Visible: true, Rule: e.rule.id, Why: whyAllowed}
			}
		}
	}
	return Decision{Why: whyNotAllowed}
}

// eval evaluates a condition; none is true. The target is not part of the
// consideration, so that a caller's own does not escape to the heap.
func (c *consideration) eval(ctx context.Context, t *Target, cond *condition) (outcome, error) {
	if cond == nil {
		return yes, nil
	}
	if c.frame == nil {
		f := frames.Get().(*frame)
		f.selection, f.lane, f.target = c.selection, c.lane, *t
		f.args, f.known = c.args, c.known
		c.frame = f
	}
	return cond.eval(ctx, c.frame)
}

// forget makes the arguments unknown.
func (c *consideration) forget() {
	c.args, c.known = nil, false
	if f := c.frame; f != nil {
		f.args, f.known, f.arguments = nil, false, nil
	}
}

// close gives the frame back, without anything of the call.
func (c *consideration) close() {
	f := c.frame
	if f == nil {
		return
	}
	c.frame = nil
	f.selection, f.lane, f.target = nil, nil, Target{}
	f.args, f.known, f.arguments, f.annotations = nil, false, nil, nil
	frames.Put(f)
}
