package south

import (
	"context"
	"net/http"
)

// Authorizer gives the credential of one request where it depends on the caller,
// or changes with time (DESIGN section 11). It is safe for concurrent use.
type Authorizer interface {
	// Authorize returns the value of the header Authorization for what is done
	// with ctx, "" for none. The caller is known by ctx, or by Principal(ctx).
	Authorize(ctx context.Context) (string, error)
	// Refused is told that the upstream did not accept such a value, so that
	// another is used from now on. One that was replaced meanwhile stays.
	Refused(ctx context.Context, value string)
	// PerCaller reports whether callers have credentials of their own. What was
	// opened with one caller's is then never used for another, and what is done
	// for nobody goes without.
	PerCaller() bool
}

// Principal is whose session something is done for that no request caused, such as
// its end.
func Principal(ctx context.Context) (key [32]byte, ok bool) {
	key, ok = ctx.Value(principalKey{}).([32]byte)
	return key, ok
}

type principalKey struct{}

// onBehalf notes whose session something is done for.
func (u *Upstream) onBehalf(ctx context.Context, key *SessionKey) context.Context {
	if u.o.Authorize == nil || key == nil {
		return ctx
	}
	return context.WithValue(ctx, principalKey{}, key.Principal)
}

// perCaller reports whether callers have credentials of their own here.
func (u *Upstream) perCaller() bool { return u.o.Authorize != nil && u.o.Authorize.PerCaller() }

// borrowed is a context that ends with one context and knows what another knows:
// for work that outlives the request that caused it.
type borrowed struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (b borrowed) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.values.Value(key)
}

// authorized sends a request with the credential that belongs to ctx. One that the
// upstream refuses is replaced and the request sent once more: a 401 says that
// nothing ran.
func (u *Upstream) authorized(ctx context.Context, verb string, body []byte, h *head) (*hopResponse, error) {
	value, err := u.o.Authorize.Authorize(ctx)
	if err != nil {
		return nil, err
	}
	h.authorization = value
	resp, err := u.send(ctx, verb, body, h)
	if err != nil || resp.status != http.StatusUnauthorized || value == "" {
		return resp, err
	}
	u.o.Authorize.Refused(ctx, value)
	again, err := u.o.Authorize.Authorize(ctx)
	if err != nil {
		drain(resp.body)
		return nil, err
	}
	if again == value {
		return resp, nil
	}
	drain(resp.body)
	h.authorization = again
	return u.send(ctx, verb, body, h)
}
