package grant

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxAnswer = 1 << 20  // bytes of an answer of the token endpoint
	maxToken  = 16 << 10 // bytes of a token; servers take no longer header
)

// Lifetimes of tokens.
const (
	assumedLife = time.Minute // of a token that does not say
	longestLife = time.Hour   // however long it says
)

// The types of token that RFC 8693 section 3 names and an upstream can take.
const (
	accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
	jwtType         = "urn:ietf:params:oauth:token-type:jwt"
)

// answer is what a token endpoint granted.
type answer struct {
	token string
	life  time.Duration // 0: for one use
	odd   bool          // expires_in is no positive number
}

// parseAnswer reads the body of a 200. No error of it repeats anything of the
// body: the body holds the token, and whatever a provider chose to repeat.
func parseAnswer(body []byte) (answer, error) {
	a := answer{life: assumedLife}
	var kind, issued string
	var hasIssued bool
	err := members(body, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "access_token":
			a.token, err = text("access_token", value)
		case "token_type":
			kind, err = text("token_type", value)
		case "issued_token_type":
			hasIssued = true
			issued, err = text("issued_token_type", value)
		case "expires_in":
			a.life, a.odd = lifetime(value)
		}
		return err
	})
	switch {
	case err != nil:
		return answer{}, err
	case a.token == "":
		return answer{}, errors.New("it holds no access_token")
	case len(a.token) > maxToken:
		return answer{}, fmt.Errorf("its access_token is longer than %d bytes", maxToken)
	case !b64token(a.token):
		return answer{}, errors.New("its access_token has bytes that a header cannot carry")
	case !strings.EqualFold(kind, "bearer"):
		return answer{}, errors.New("its token_type is not Bearer")
	case hasIssued && issued != accessTokenType && issued != jwtType:
		return answer{}, errors.New("its issued_token_type is neither access_token nor jwt")
	}
	return a, nil
}

// lifetime reads expires_in, in seconds. What is no positive number makes the
// token one for a single use, and is odd.
func lifetime(value jsontext.Value) (life time.Duration, odd bool) {
	if value.Kind() != '0' {
		return 0, true
	}
	s, err := strconv.ParseFloat(string(value), 64) // infinite when out of range
	switch {
	case math.IsNaN(s) || s <= 0 || (err != nil && !errors.Is(err, strconv.ErrRange)):
		return 0, true
	case s >= longestLife.Seconds():
		return longestLife, false
	}
	return time.Duration(s * float64(time.Second)), false
}

// registered are the error codes that may be repeated: those of RFC 6749,
// RFC 8693 and the registry of OAuth extensions that a token endpoint has a use for.
var registered = map[string]bool{
	"invalid_request": true, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true,
	"unsupported_grant_type": true, "invalid_scope": true, "invalid_target": true, "invalid_token": true,
	"access_denied": true, "interaction_required": true, "login_required": true, "consent_required": true,
	"unsupported_token_type": true,
}

// parseRefusal returns the error code of a refusal, or "" when there is none, or
// none that is registered.
func parseRefusal(body []byte) (code string) {
	err := members(body, func(name string, value jsontext.Value) (err error) {
		if name == "error" {
			code, err = text("error", value)
		}
		return err
	})
	if err != nil || !registered[code] {
		return ""
	}
	return code
}

// members reads one JSON object strictly: UTF-8, no name twice at any depth,
// nothing behind it. Its own errors tell where it is broken and not with what.
func members(body []byte, yield func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	broken := func() error { return fmt.Errorf("it is not strict JSON near byte %d", d.InputOffset()) }
	if t, err := d.ReadToken(); err != nil {
		return broken()
	} else if t.Kind() != '{' {
		return errors.New("it is not a JSON object")
	}
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return broken()
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return broken()
		}
		if err := yield(name, value); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return broken()
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is data behind the JSON object")
	}
	return nil
}

// text decodes a string.
func text(name string, value jsontext.Value) (string, error) {
	if value.Kind() != '"' {
		return "", fmt.Errorf("its %s is not a string", name)
	}
	b, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", fmt.Errorf("its %s is not a valid string", name)
	}
	return string(b), nil
}

// b64token says whether s is a b64token of RFC 6750 2.1, which is what may stand
// behind "Bearer ".
func b64token(s string) bool {
	rest := strings.TrimRight(s, "=")
	for i := range len(rest) {
		switch c := rest[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return rest != ""
}
