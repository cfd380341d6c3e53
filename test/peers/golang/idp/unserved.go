package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

var errUnserved = errors.New("this provider does not serve that")

// unserved refuses what belongs to logins, refresh tokens, introspection and revocation.
type unserved struct{}

// CreateAuthRequest implements op.Storage, as does everything here.
func (unserved) CreateAuthRequest(context.Context, *oidc.AuthRequest, string) (op.AuthRequest, error) {
	return nil, errUnserved
}

// AuthRequestByID refuses.
func (unserved) AuthRequestByID(context.Context, string) (op.AuthRequest, error) {
	return nil, errUnserved
}

// AuthRequestByCode refuses.
func (unserved) AuthRequestByCode(context.Context, string) (op.AuthRequest, error) {
	return nil, errUnserved
}

// SaveAuthCode refuses.
func (unserved) SaveAuthCode(context.Context, string, string) error { return errUnserved }

// DeleteAuthRequest refuses.
func (unserved) DeleteAuthRequest(context.Context, string) error { return errUnserved }

// CreateAccessAndRefreshTokens refuses.
func (unserved) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string) (string, string, time.Time, error) {
	return "", "", time.Time{}, errUnserved
}

// TokenRequestByRefreshToken refuses.
func (unserved) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, op.ErrInvalidRefreshToken
}

// TerminateSession refuses.
func (unserved) TerminateSession(context.Context, string, string) error { return errUnserved }

// RevokeToken refuses.
func (unserved) RevokeToken(context.Context, string, string, string) *oidc.Error {
	return oidc.ErrInvalidRequest().WithParent(errUnserved)
}

// GetRefreshTokenInfo refuses.
func (unserved) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

// SetUserinfoFromScopes refuses.
func (unserved) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return errUnserved
}

// SetUserinfoFromToken refuses.
func (unserved) SetUserinfoFromToken(context.Context, *oidc.UserInfo, string, string, string) error {
	return errUnserved
}

// SetIntrospectionFromToken refuses.
func (unserved) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errUnserved
}

// GetKeyByIDAndClientID refuses.
func (unserved) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errUnserved
}

// ValidateJWTProfileScopes refuses.
func (unserved) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errUnserved
}
