package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// storage is the part of the provider that zitadel/oidc leaves to its user. Access tokens are JWTs, so none is kept.
type storage struct {
	unserved
	state    *state
	lifetime atomic.Int64 // of tokens that the token endpoint issues, a time.Duration
}

var (
	_ op.Storage                  = (*storage)(nil)
	_ op.ClientCredentialsStorage = (*storage)(nil)
	_ op.TokenExchangeStorage     = (*storage)(nil)
)

func newStorage(s *state) *storage {
	out := &storage{state: s}
	out.lifetime.Store(int64(5 * time.Minute))
	return out
}

// SigningKey implements op.Storage, as do the next three.
func (s *storage) SigningKey(context.Context) (op.SigningKey, error) { return s.state.signing(), nil }

// SignatureAlgorithms is what discovery tells.
func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{s.state.signing().Alg}, nil
}

// KeySet is what the key set endpoint shows, and what the provider itself believes.
func (s *storage) KeySet(context.Context) ([]op.Key, error) {
	var all []op.Key
	for _, k := range s.state.set() {
		all = append(all, published{k})
	}
	return all, nil
}

// Health implements op.Storage.
func (s *storage) Health(context.Context) error { return nil }

var errClient = errors.New("unknown client, or not its secret")

func (s *storage) authenticate(id, secret string) (*client, error) {
	c := s.state.client(id)
	if c == nil || subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1 {
		return nil, errClient
	}
	return c, nil
}

// GetClientByClientID implements op.Storage.
func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if c := s.state.client(id); c != nil {
		return c, nil
	}
	return nil, errClient
}

// AuthorizeClientIDSecret implements op.Storage.
func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	_, err := s.authenticate(id, secret)
	return err
}

// ClientCredentials implements op.ClientCredentialsStorage; the library then looks at the client's grants.
func (s *storage) ClientCredentials(_ context.Context, id, secret string) (op.Client, error) {
	c, err := s.authenticate(id, secret)
	if err != nil {
		return nil, err // not c: a nil pointer in the interface would be a client
	}
	return c, nil
}

// ClientCredentialsTokenRequest implements op.ClientCredentialsStorage.
func (s *storage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	return &oidc.JWTTokenRequest{Subject: id, Audience: []string{id}, Scopes: scopes}, nil
}

// CreateAccessToken names a token and says how long it lives; the library forms and signs it.
func (s *storage) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	return rand.Text(), time.Now().UTC().Add(time.Duration(s.lifetime.Load())), nil
}

// GetPrivateClaimsFromScopes adds the scopes, which the library leaves out.
func (s *storage) GetPrivateClaimsFromScopes(_ context.Context, _, _ string, scopes []string) (map[string]any, error) {
	return scopeClaim(scopes), nil
}

func scopeClaim(scopes []string) map[string]any {
	if len(scopes) == 0 {
		return map[string]any{}
	}
	return map[string]any{"scope": strings.Join(scopes, " ")}
}

// ValidateTokenExchangeRequest grants the audience that was asked for, to a client that may exchange. The library has
// verified the subject token by then: its signature, its issuer and its end.
func (s *storage) ValidateTokenExchangeRequest(_ context.Context, r op.TokenExchangeRequest) error {
	if c := s.state.client(r.GetClientID()); c == nil || !c.may(oidc.GrantTypeTokenExchange) {
		return oidc.ErrUnauthorizedClient()
	}
	if r.GetExchangeSubject() == "" {
		return oidc.ErrInvalidRequest().WithDescription("subject_token names no subject")
	}
	switch r.GetRequestedTokenType() {
	case "":
		r.SetRequestedTokenType(oidc.AccessTokenType)
	case oidc.AccessTokenType:
	default:
		return oidc.ErrInvalidRequest().WithDescription("only access tokens are issued")
	}
	return nil
}

// CreateTokenExchangeRequest implements op.TokenExchangeStorage; nothing is kept.
func (s *storage) CreateTokenExchangeRequest(context.Context, op.TokenExchangeRequest) error {
	return nil
}

// GetPrivateClaimsFromTokenExchangeRequest says who acts: the actor if one was named, else the client.
func (s *storage) GetPrivateClaimsFromTokenExchangeRequest(_ context.Context, r op.TokenExchangeRequest) (map[string]any, error) {
	claims := scopeClaim(r.GetScopes())
	actor := r.GetExchangeActor()
	if actor == "" {
		actor = r.GetClientID()
	}
	claims["act"] = map[string]any{"sub": actor}
	return claims, nil
}

// SetUserinfoFromTokenExchangeRequest implements op.TokenExchangeStorage.
func (s *storage) SetUserinfoFromTokenExchangeRequest(context.Context, *oidc.UserInfo, op.TokenExchangeRequest) error {
	return errUnserved
}
