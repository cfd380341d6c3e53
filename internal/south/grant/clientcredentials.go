package grant

import (
	"context"
	"fmt"
)

// ClientCredentials gets the gateway's own token for one upstream (RFC 6749 4.4).
// It is safe for concurrent use; Close ends it.
type ClientCredentials struct {
	k *keeper
	s slot
}

// NewClientCredentials reports every fault of the options; nothing is asked for yet.
func NewClientCredentials(o Options) (*ClientCredentials, error) {
	k, err := newKeeper(kindClient, o)
	if err != nil {
		return nil, err
	}
	return &ClientCredentials{k: k}, nil
}

// Token returns a token that is good for a request now. With one in memory it
// neither waits nor allocates. Otherwise it waits for the token endpoint, at most
// until ctx ends or Options.Timeout is over. The error is a *fault.Error of
// fault.CredentialFailed; its RetryAfter is set when trying again soon may help.
func (c *ClientCredentials) Token(ctx context.Context) (string, error) {
	now := c.k.now()
	h := c.s.good(now)
	if h == nil {
		return c.k.fetch(ctx, &c.s, want{}, now)
	}
	if !now.Before(h.renew) && !c.k.crowded() && c.s.mayRenew(now) {
		c.k.renew(&c.s, h, want{})
	}
	return c.k.held(h), nil
}

// Refused tells that the upstream answered 401 to a request with the token. It is
// forgotten if it is still the current one. The next Token asks for another, but
// at most one a second is got so.
func (c *ClientCredentials) Refused(token string) { c.s.refused(token) }

// Close gives up what is under way, waits for its end and forgets the token.
// Token fails afterwards. It may be called more than once.
func (c *ClientCredentials) Close() {
	c.k.close()
	c.s.drop()
}

// Format writes which upstream's it is, and nothing of what it holds.
func (c *ClientCredentials) Format(f fmt.State, _ rune) { c.k.format(f) }
