package grant

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAnAnswerIsReadStrictly(t *testing.T) {
	const rest = `,"token_type":"bearer"}`
	for body, want := range map[string]answer{
		`{"access_token":"a"` + rest:                                                            {token: "a", life: assumedLife},
		`{"access_token":"a-._~+/9Z=="` + rest:                                                  {token: "a-._~+/9Z==", life: assumedLife},
		`{"access_token":"\u0061","token_type":"BEARER"} ` + "\n":                               {token: "a", life: assumedLife},
		`{"access_token":"a","expires_in":30` + rest:                                            {token: "a", life: 30 * time.Second},
		`{"access_token":"a","expires_in":1.5e1` + rest:                                         {token: "a", life: 15 * time.Second},
		`{"access_token":"a","expires_in":3601` + rest:                                          {token: "a", life: time.Hour},
		`{"access_token":"a","expires_in":1e999` + rest:                                         {token: "a", life: time.Hour},
		`{"access_token":"a","expires_in":9223372036854775808` + rest:                           {token: "a", life: time.Hour},
		`{"access_token":"a","expires_in":0` + rest:                                             {token: "a", odd: true},
		`{"access_token":"a","expires_in":-1` + rest:                                            {token: "a", odd: true},
		`{"access_token":"a","expires_in":-1e999` + rest:                                        {token: "a", odd: true},
		`{"access_token":"a","expires_in":1e-999` + rest:                                        {token: "a", odd: true},
		`{"access_token":"a","expires_in":"NaN"` + rest:                                         {token: "a", odd: true},
		`{"access_token":"a","expires_in":null` + rest:                                          {token: "a", odd: true},
		`{"access_token":"a","x":{"access_token":"b"},"refresh_token":"r"` + rest:               {token: "a", life: assumedLife},
		`{"access_token":"a","issued_token_type":"urn:ietf:params:oauth:token-type:jwt"` + rest: {token: "a", life: assumedLife},
	} {
		if got, err := parseAnswer([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	for name, body := range map[string]string{
		"nothing":             ``,
		"text":                `<html>`,
		"an array":            `[{"access_token":"a"}]`,
		"a string":            `"a"`,
		"cut":                 `{"access_token":"a","token_type":"bearer"`,
		"more behind it":      `{"access_token":"a","token_type":"bearer"}{}`,
		"a name twice":        `{"access_token":"a","access_token":"b"` + rest,
		"a name twice within": `{"access_token":"a","x":{"y":1,"y":2}` + rest,
		"escaped twice":       `{"access_token":"a","\u0061ccess_token":"b"` + rest,
		"no UTF-8":            "{\"access_token\":\"a\",\"x\":\"\xff\"" + rest,
		"NaN":                 `{"access_token":"a","expires_in":NaN` + rest,
		"no token":            `{"token_type":"bearer"}`,
		"an empty token":      `{"access_token":""` + rest,
		"only padding":        `{"access_token":"=="` + rest,
		"padding within":      `{"access_token":"a=b"` + rest,
		"a number":            `{"access_token":7` + rest,
		"null":                `{"access_token":null` + rest,
		"a space":             `{"access_token":"a b"` + rest,
		"a line break":        `{"access_token":"a\r\nX: y"` + rest,
		"a letter beyond":     `{"access_token":"ä"` + rest,
		"a long token":        `{"access_token":"` + strings.Repeat("a", maxToken+1) + `"` + rest,
		"no type":             `{"access_token":"a"}`,
		"another type":        `{"access_token":"a","token_type":"DPoP"}`,
		"N_A":                 `{"access_token":"a","token_type":"N_A"}`,
		"type no string":      `{"access_token":"a","token_type":["bearer"]}`,
		"issued N_A":          `{"access_token":"a","issued_token_type":"N_A"` + rest,
		"issued saml2":        `{"access_token":"a","issued_token_type":"urn:ietf:params:oauth:token-type:saml2"` + rest,
		"issued empty":        `{"access_token":"a","issued_token_type":""` + rest,
		"issued null":         `{"access_token":"a","issued_token_type":null` + rest,
		"deep":                `{"access_token":"a","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + rest,
	} {
		if got, err := parseAnswer([]byte(body)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOnlyRegisteredCodesAreRepeated(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"invalid_grant","error_description":"the token xyz is bad"}`: "invalid_grant",
		`{"error":"invalid_target"}`:                        "invalid_target",
		`{"error":"xyz"}`:                                   "",
		`{"error":"invalid_grant xyz"}`:                     "",
		`{"error":["invalid_grant"]}`:                       "",
		`{"error":"invalid_grant","error":"invalid_grant"}`: "",
		`{"error_description":"invalid_grant"}`:             "",
		`invalid_grant`:                                     "",
		``:                                                  "",
	} {
		if got := parseRefusal([]byte(body)); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"access_token":"a","token_type":"Bearer","expires_in":3600,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`,
		`{"access_token":"a","token_type":"Bearer","expires_in":1e400}`, `{"error":"invalid_grant"}`, `{"access_token":"\ud800"}`, `{`, `[]`, `{"a":{}}x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := parseAnswer(body)
		if err == nil {
			if !b64token(a.token) || len(a.token) > maxToken || a.life < 0 || a.life > longestLife || (a.life == 0 && !a.odd && !tiny(body)) {
				t.Errorf("%q: %+v", body, a)
			}
			if again, err := parseAnswer(append([]byte(" \n"), body...)); err != nil || again != a {
				t.Errorf("%q: with white space %+v, %v", body, again, err)
			}
			if _, err := parseAnswer(append(append([]byte{}, body...), '1')); err == nil {
				t.Errorf("%q: data behind it is accepted", body)
			}
		} else if a != (answer{}) {
			t.Errorf("%q: %+v beside %v", body, a, err)
		} else {
			// An error is one of a few texts with numbers, whatever the body is.
			for _, r := range err.Error() {
				if r > '~' || strings.ContainsRune("{}[]\"\\<>", r) {
					t.Errorf("%q: the error repeats it: %v", body, err)
				}
			}
		}
		if code := parseRefusal(body); code != "" && !registered[code] {
			t.Errorf("%q: %q", body, code)
		}
	})
}

// tiny says whether a lifetime below a nanosecond may be in the body.
func tiny(body []byte) bool { return strings.ContainsAny(string(body), ".eE") }

func TestATokenIsUsedWithinItsLife(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct{ life, ends, until, renew time.Duration }{
		{time.Hour, 0, 54 * time.Minute, 54 * time.Minute * 9 / 10},
		{time.Minute, 0, 50 * time.Second, 45 * time.Second},
		{100 * time.Second, 0, 90 * time.Second, 81 * time.Second},
		{20 * time.Second, 0, 10 * time.Second, 9 * time.Second},
		{time.Hour, 2 * time.Hour, 54 * time.Minute, 54 * time.Minute * 9 / 10},
		{time.Hour, time.Minute, time.Minute, time.Minute}, // to renew it is no use
	} {
		ends := time.Time{}
		if c.ends > 0 {
			ends = at.Add(c.ends)
		}
		h := hold(answer{token: "a", life: c.life}, at, ends)
		if got, want := fmt.Sprint(h.until.Sub(at), h.renew.Sub(at)), fmt.Sprint(c.until, c.renew); got != want {
			t.Errorf("life %v, subject %v: until and renewal %s, want %s", c.life, c.ends, got, want)
		}
	}
	for _, life := range []time.Duration{0, time.Second, 10 * time.Second} {
		if h := hold(answer{token: "a", life: life}, at, time.Time{}); h.until.After(at) {
			t.Errorf("a token of %v is kept until %v", life, h.until.Sub(at))
		}
	}
}
