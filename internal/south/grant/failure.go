package grant

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// The kinds of grant, as Outcome is told.
const (
	kindClient   = "client_credentials"
	kindExchange = "exchange"
)

// The outcomes, as Outcome is told.
const (
	outcomeOK          = "ok"
	outcomeCached      = "cached"
	outcomeRefused     = "refused"
	outcomeFailed      = "failed"
	outcomeUnavailable = "unavailable"
)

// How long a failure is answered from memory.
const (
	rememberDown    = time.Second     // the provider was not reached, or not able
	rememberRefusal = 5 * time.Second // asking again would be answered alike
)

// failure is why a request to the token endpoint brought no token.
type failure struct {
	err      *fault.Error
	outcome  string
	remember time.Duration
}

// asked names, in a public text, what was asked for.
func (e *endpoint) asked() string {
	if e.kind == kindExchange {
		return "the exchange"
	}
	return "the client credentials"
}

// refused is the answer of a provider that said no.
func (e *endpoint) refused(status int, code string) *failure {
	said := ": " + code
	if code == "" {
		said = ""
	}
	err := fault.Wrap(fmt.Errorf("the token endpoint answered %d", status), fault.CredentialFailed,
		"upstream %q: the identity provider refused %s%s", e.upstream, e.asked(), said)
	switch code {
	case "invalid_grant", "invalid_token", "access_denied", "interaction_required", "login_required", "consent_required":
		if e.kind == kindExchange {
			return &failure{err.WithHint("sign in again, and ask the operator if that does not help"), outcomeRefused, rememberRefusal}
		}
	}
	return &failure{err.WithHint("ask the operator to check the credentials of this upstream"), outcomeRefused, rememberRefusal}
}

// unusable is an answer that nothing can be done with.
func (e *endpoint) unusable(cause error) *failure {
	return &failure{fault.Wrap(cause, fault.CredentialFailed,
		"upstream %q: the identity provider gave an answer that cannot be used", e.upstream).
		WithHint("ask the operator to check token_url of this upstream"), outcomeFailed, rememberRefusal}
}

// redirected is a redirect, which is not followed: it would carry the secret or
// the caller's token elsewhere.
func (e *endpoint) redirected(status int) *failure {
	return &failure{fault.Wrap(fmt.Errorf("the token endpoint answered %d", status), fault.CredentialFailed,
		"upstream %q: the identity provider answered with a redirect, which is refused", e.upstream).
		WithHint("ask the operator to set token_url of this upstream to the address that answers itself"), outcomeFailed, rememberRefusal}
}

// passedBack is an exchange whose outcome is the caller's own token. To use it
// would pass the caller's token on, which the specification forbids.
func (e *endpoint) passedBack() *failure {
	return &failure{fault.Wrap(errors.New("the exchange returned the subject token itself"), fault.CredentialFailed,
		"upstream %q: the identity provider returned the caller's own token instead of exchanging it, and that is never passed on", e.upstream).
		WithHint("ask the operator to set the audience of this upstream, and to check the provider's rules for exchange"), outcomeFailed, rememberRefusal}
}

// unavailable is a provider that was not reached or not able. It may be asked
// again soon.
func (e *endpoint) unavailable(cause error) *failure {
	return &failure{fault.Wrap(cause, fault.CredentialFailed,
		"upstream %q: the identity provider is not available", e.upstream).
		WithHint("try again; nothing was sent to the upstream").WithRetryAfter(rememberDown), outcomeUnavailable, rememberDown}
}

// reason describes, for the log, why a request failed, without what the peer
// sent: errors of net/http quote it, and it may repeat what was sent to it.
func reason(err error) error {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		op   *net.OpError
		slow net.Error
	)
	switch {
	case errors.Is(err, errNotLoopback):
		return errNotLoopback
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return fmt.Errorf("the token endpoint did not answer in time: %w", context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("the request to the token endpoint was given up: %w", context.Canceled)
	case errors.As(err, &dns):
		return fmt.Errorf("the token endpoint's name was not resolved: %w", dns)
	case errors.As(err, &cert):
		return fmt.Errorf("the token endpoint's certificate is not accepted: %w", cert)
	case errors.As(err, &op):
		return fmt.Errorf("the token endpoint was not reached: %w", op)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the token endpoint closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return errors.New("the token endpoint does not speak TLS or HTTP as it should, or its header is too large")
}
