package policy

import (
	"context"
	"strings"
)

// Step is what one effect of one rule has to say about a target.
type Step struct {
	Rule    string // its id
	Effect  string // "allow" or "deny"; "" for a rule with neither
	Outcome string // why it decides, or why it does not
}

// The outcomes of steps that have no more to say.
const (
	decides  = "decides"
	mayAllow = "matches, depending on the arguments"
	tooLate  = "matches, but another rule decides"
	noNames  = "names nothing"
)

// Explain decides as Decide does where the arguments are known, and as Sees
// does where they are not: then Allowed and Visible are both whether the caller
// sees the target. It tells of every rule of the policy, in order, why it does
// or does not match. It is for operators: an outcome can quote a condition's
// error, and with it arguments. A nil View has no steps.
func (v *View) Explain(ctx context.Context, t *Target, args []byte, known bool) (Decision, []Step) {
	if v == nil {
		return Decision{Allowed: true, Visible: true, Why: whyNoPolicy}, nil
	}
	c := v.consider(t)
	defer c.close()
	if known {
		c.args, c.known = args, true
	}
	var (
		steps    []Step
		deciding = -1 // among steps
		d        = Decision{Why: whyNotAllowed}
	)
	decide := func(by Decision) string {
		d, deciding = by, len(steps)
		return decides
	}
	// The first deny wins, wherever it is; so an allow that came before it is
	// told to be too late when it turns up.
	supersede := func() {
		if deciding >= 0 {
			steps[deciding].Outcome = tooLate
		}
	}
	denied := false
	certain, open := false, false // an allow is true whatever the arguments are; a deny may be
	for i := range v.policy.rules {
		r := &v.policy.rules[i]
		effects := 0
		for _, effect := range []string{"deny", "allow"} {
			globs, named := r.effect(effect, c.kind)
			if !named {
				continue
			}
			effects++
			step := Step{Rule: r.id, Effect: effect}
			if miss := r.misses(v.caller, t, globs); miss != "" {
				step.Outcome = "does not match: " + miss
				steps = append(steps, step)
				continue
			}
			o, err := c.eval(ctx, t, r.cond)
			certain = certain || effect == "allow" && o == yes
			open = open || effect == "deny" && o == unknown
			switch {
			case o == no:
				step.Outcome = "does not match: condition is false"
			case effect == "deny" && o == unknown:
				step.Outcome = "matches, depending on the arguments: unknown does not hide"
			case effect == "allow" && o == failed:
				step.Outcome = "does not match: condition failed: " + short(err)
			case denied, effect == "allow" && deciding >= 0:
				step.Outcome = tooLate
			case effect == "deny":
				supersede()
				denied = true
				step.Outcome = decide(Decision{Rule: r.id, Why: whyDenied})
				if o == failed {
					d.Why = whyFailed
					step.Outcome += ": condition failed: " + short(err)
				}
			case o == unknown:
				decide(Decision{Allowed: true, Visible: true, Rule: r.id, Why: whyMay})
				step.Outcome = mayAllow
			default:
				step.Outcome = decide(Decision{Allowed: true, Visible: true, Rule: r.id, Why: whyAllowed})
			}
			steps = append(steps, step)
		}
		if effects == 0 {
			steps = append(steps, Step{Rule: r.id, Outcome: noNames})
		}
	}
	if known && !d.Allowed {
		c.forget()
		d.Visible = c.sees(ctx, t)
	}
	d.Depends = !known && d.Allowed && (open || !certain)
	return d, steps
}

// effect returns the globs of one effect for a kind, and whether the rule has
// the effect at all.
func (r *rule) effect(effect string, kind int) (globs []pattern, named bool) {
	by := &r.allow
	if effect == "deny" {
		by = &r.deny
	}
	for k := range by {
		named = named || len(by[k]) > 0
	}
	return by[kind], named
}

// misses returns what of a rule, other than its condition, does not fit.
func (r *rule) misses(c *Caller, t *Target, globs []pattern) string {
	if field := r.who.misses(c); field != "" {
		return field
	}
	switch {
	case !r.server.matches(t.Server):
		return "server"
	case !r.upstream.matches(t.Upstream):
		return "upstream"
	case len(globs) == 0:
		return "kind"
	case !t.fits(globs):
		return "name"
	}
	return ""
}

// short is an error in one line of bounded length.
func short(err error) string {
	const limit = 200
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
