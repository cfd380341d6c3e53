package grant

import "time"

// leastMargin is how long before its end a token is no longer used, at least: a
// request with it has to arrive, and clocks differ.
const leastMargin = 10 * time.Second

// held is a token and how long it is used. It is immutable.
type held struct {
	token string
	until time.Time // used before it; not after asked: for the callers that wait alone
	renew time.Time // from then on a new one is fetched ahead
}

// hold decides how long a token is used that was asked for at asked, for a
// subject that ends at ends, or never when that is zero.
func hold(a answer, asked, ends time.Time) *held {
	margin := max(leastMargin, a.life/10)
	use := a.life - margin
	h := &held{token: a.token, until: asked.Add(use), renew: asked.Add(use - use/10)}
	if !ends.IsZero() && ends.Before(h.until) {
		// A new one would end with the subject too.
		h.until, h.renew = ends, ends
	}
	return h
}
