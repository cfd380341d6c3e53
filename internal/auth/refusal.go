package auth

import (
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Refusal is the error of Identify and Check. It unwraps to a *fault.Error whose
// code says how to answer: Unauthenticated (401) and InsufficientScope (403) with
// WWW-Authenticate formed from the fields here; RateLimited and
// IdentityUnavailable without, for they say nothing about the credential. It is
// immutable and may be shared.
type Refusal struct {
	Fault *fault.Error

	// Kind is the error of WWW-Authenticate (RFC 6750): "" when no credential was
	// sent, "invalid_token", "invalid_request" or "insufficient_scope".
	Kind string
	// Description is its error_description: plain words without quotes or
	// backslashes that do not repeat the token. "" when no credential was sent.
	Description string
	// Scopes is its scope: what a token needs. Only for insufficient_scope.
	Scopes []string

	outcome string
}

// Error tells code and message.
func (r *Refusal) Error() string { return r.Fault.Error() }

// Unwrap returns the fault.
func (r *Refusal) Unwrap() error { return r.Fault }

// The kinds of a Refusal.
const (
	kindToken   = "invalid_token"
	kindRequest = "invalid_request"
	kindScope   = "insufficient_scope"
)

// What Outcome is told. The set is closed, so that it can label a metric.
const (
	outcomeOK          = "ok"
	outcomeCached      = "cached"
	outcomeAnonymous   = "anonymous"
	outcomeMissing     = "missing"
	outcomeMalformed   = "malformed"
	outcomeAlgorithm   = "algorithm"
	outcomeType        = "type"
	outcomeIssuer      = "issuer"
	outcomeExpired     = "expired"
	outcomeEarly       = "early"
	outcomeAudience    = "audience"
	outcomeClaims      = "claims"
	outcomeUnknownKey  = "unknown_key"
	outcomeSignature   = "signature"
	outcomeRevoked     = "revoked"
	outcomeScope       = "scope"
	outcomeLimited     = "limited"
	outcomeUnavailable = "unavailable"
)

// Outcomes returns every word that Options.Outcome can be told.
func Outcomes() []string {
	return []string{
		outcomeOK, outcomeCached, outcomeAnonymous, outcomeMissing, outcomeMalformed, outcomeAlgorithm, outcomeType,
		outcomeIssuer, outcomeExpired, outcomeEarly, outcomeAudience, outcomeClaims, outcomeUnknownKey,
		outcomeSignature, outcomeRevoked, outcomeScope, outcomeLimited, outcomeUnavailable,
	}
}

// The refusals. Those of tokens tell what is wrong with it, never what it says.
var (
	refusedMissing = &Refusal{
		Fault:   fault.New(fault.Unauthenticated, "no credential was sent").WithHint("send a token or an API key as Authorization: Bearer"),
		outcome: outcomeMissing,
	}
	refusedScheme = &Refusal{
		Fault:   fault.New(fault.Unauthenticated, "the authorization scheme is not Bearer").WithHint("send a token or an API key as Authorization: Bearer"),
		outcome: outcomeMissing,
	}
	refusedTwice    = badRequest("more than one Authorization header was sent")
	refusedForm     = badRequest("the Authorization header is not Bearer and one token")
	refusedHugeness = badRequest("the token is too large")

	refusedKey       = badToken(outcomeUnknownKey, "the API key is not known")
	refusedKeyDay    = badToken(outcomeExpired, "the API key has expired")
	refusedNoJWT     = badToken(outcomeMalformed, "the credential is neither a known API key nor a well-formed token")
	refusedHeader    = badToken(outcomeMalformed, "the header of the token is not valid")
	refusedCritical  = badToken(outcomeMalformed, "the token asks for an extension that is not supported")
	refusedClaims    = badToken(outcomeMalformed, "the claims of the token are not valid")
	refusedAlgorithm = badToken(outcomeAlgorithm, "the token is signed with an algorithm that is not allowed")
	refusedType      = badToken(outcomeType, "the token is not an access token")
	refusedID        = badToken(outcomeType, "the token is an ID token; an access token is needed")
	refusedNoExp     = badToken(outcomeClaims, "the token has no expiry")
	refusedNoSub     = badToken(outcomeClaims, "the token has no subject")
	refusedNoIss     = badToken(outcomeIssuer, "the token has no issuer")
	refusedIssuer    = badToken(outcomeIssuer, "the token is from an issuer that is not trusted here")
	refusedExpired   = badToken(outcomeExpired, "the token has expired")
	refusedEarly     = badToken(outcomeEarly, "the token is not valid yet")
	refusedFuture    = badToken(outcomeEarly, "the token was issued in the future")
	refusedAudience  = badToken(outcomeAudience, "the token is for another audience")
	refusedTenant    = badToken(outcomeClaims, "the token does not say which tenant it is for")
	refusedUnknown   = badToken(outcomeUnknownKey, "the token is signed with a key that its issuer does not publish")
	refusedNameless  = badToken(outcomeUnknownKey, "the token does not say which key it is signed with")
	refusedSignature = badToken(outcomeSignature, "the signature of the token is not valid")
	refusedRevoked   = badToken(outcomeRevoked, "the credential was revoked")
	refusedWithdrawn = badToken(outcomeUnknownKey, "the key that signed the token was withdrawn")
	refusedGone      = badToken(outcomeRevoked, "the credential is no longer accepted")

	refusedLimited = &Refusal{
		Fault:   fault.New(fault.RateLimited, "too many tokens from this address failed verification").WithRetryAfter(time.Second),
		outcome: outcomeLimited,
	}
	refusedUnavailable = &Refusal{
		Fault:   fault.New(fault.IdentityUnavailable, "the keys of the token's issuer cannot be read at present").WithRetryAfter(5 * time.Second),
		outcome: outcomeUnavailable,
	}
	refusedUnread = &Refusal{
		Fault:   fault.New(fault.IdentityUnavailable, "the list of revoked credentials cannot be read at present").WithRetryAfter(5 * time.Second),
		outcome: outcomeUnavailable,
	}
)

func badToken(outcome, text string) *Refusal {
	return &Refusal{Fault: fault.New(fault.Unauthenticated, "%s", text), Kind: kindToken, Description: text, outcome: outcome}
}

func badRequest(text string) *Refusal {
	return &Refusal{Fault: fault.New(fault.Unauthenticated, "%s", text), Kind: kindRequest, Description: text, outcome: outcomeMalformed}
}

// lacking refuses for the missing ones of the required scopes.
func lacking(required, missing []string) *Refusal {
	text := "the credential lacks the scope " + strings.Join(missing, " ")
	return &Refusal{
		Fault: fault.New(fault.InsufficientScope, "%s", text), Kind: kindScope, Description: text,
		Scopes: required, outcome: outcomeScope,
	}
}
