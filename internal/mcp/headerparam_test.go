package mcp

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMirroredParametersMatchTheirArguments(t *testing.T) {
	for _, tc := range []struct{ header, body, typ string }{
		{"eu-west", `"eu-west"`, "string"},
		{"", `""`, "string"},
		{"=?base64?WmHFvMOzxYLEhw==?=", `"Za\u017c\u00f3łć"`, "string"},
		{"=?BASE64?eA==?=", `"=?BASE64?eA==?="`, "string"},
		{"42", `42`, "integer"},
		{"42.0", `42`, "integer"},
		{"42", `42.0`, "integer"},
		{"42", `4.2e1`, "integer"},
		{"4200E-2", `42`, "integer"},
		{"-0", `0.0e9`, "integer"},
		{"9007199254740991", `9007199254740991.0`, "integer"},
		{"true", `true`, "boolean"},
		{"false", `false`, "boolean"},
		{"1.50", `1.50`, "string"},
	} {
		if err := MatchParam(tc.header, []byte(tc.body), tc.typ); err != nil {
			t.Errorf("%s against %s: %v", tc.header, tc.body, err)
		}
	}
}

func TestMirroredParametersThatDifferAreRefused(t *testing.T) {
	for _, tc := range []struct{ header, body, typ string }{
		{"eu", `"us"`, "string"},
		{"EU", `"eu"`, "string"},
		{"42", `"42.0"`, "string"},
		{"43", `42`, "integer"},
		{"42.1", `42.1`, "integer"},
		{"9007199254740992", `9007199254740992`, "integer"},
		{"9007199254740993", `9007199254740992`, "integer"},
		{"1e400", `1e400`, "integer"},
		{"1e99999999999999999999", `1`, "integer"},
		{"042", `42`, "integer"},
		{"+42", `42`, "integer"},
		{"0x2a", `42`, "integer"},
		{"42.", `42`, "integer"},
		{"", `0`, "integer"},
		{"True", `true`, "boolean"},
		{"1", `true`, "boolean"},
		{"null", `null`, "string"},
		{"{}", `{}`, "string"},
	} {
		if err := MatchParam(tc.header, []byte(tc.body), tc.typ); !errors.Is(err, ErrParamMismatch) {
			t.Errorf("%s against %s: %v", tc.header, tc.body, err)
		}
	}
	if err := MatchParam("=?base64?x?=", []byte(`"x"`), "string"); !errors.Is(err, ErrHeaderValue) {
		t.Errorf("a sentinel that does not decode: %v", err)
	}
}

func TestArgumentsAreMirrored(t *testing.T) {
	for _, tc := range []struct {
		body, want string
		ok         bool
	}{
		{"", "", false},
		{`null`, "", false},
		{`""`, "", true},
		{`"a\tb"`, "=?base64?YQli?=", true},
		{`"eu"`, "eu", true},
		{`42.0`, "42", true},
		{`-1e3`, "-1000", true},
		{`true`, "true", true},
	} {
		got, ok, err := ParamHeader([]byte(tc.body))
		if err != nil || ok != tc.ok || got != tc.want {
			t.Errorf("%s: %q, %v, %v", tc.body, got, ok, err)
		}
	}
	for _, body := range []string{`1.5`, `9007199254740992`, `{}`, `[]`, `1e400`, `1` + strings.Repeat("0", 100)} {
		if got, ok, err := ParamHeader([]byte(body)); err == nil || ok {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func TestIntegersAreReadExactly(t *testing.T) {
	limit := big.NewRat(maxExact, 1)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		want, good := new(big.Rat).SetString(s)
		if !good {
			t.Skip("not a number to math/big")
		}
		exact := want.IsInt() && new(big.Rat).Abs(want).Cmp(limit) <= 0
		got, ok := parseInteger([]byte(s))
		if ok != exact {
			t.Fatalf("%s: ok is %v", s, ok)
		}
		if ok && new(big.Rat).SetInt64(got).Cmp(want) != 0 {
			t.Fatalf("%s: %d", s, got)
		}
	})
}
