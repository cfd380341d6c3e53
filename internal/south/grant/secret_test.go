package grant

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
)

// printed is v in every way that a careless line of code might print it.
func printed(t *testing.T, v any) string {
	t.Helper()
	var all strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%z", "%10v"} {
		fmt.Fprintf(&all, verb+"\n", v)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&all, nil), slog.NewJSONHandler(&all, nil)} {
		slog.New(h).Info("x", "v", v)
	}
	if b, err := json.Marshal(v); err == nil {
		all.Write(b)
	}
	if b, err := jsonv2.Marshal(v); err == nil {
		all.Write(b)
	}
	return all.String()
}

func without(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		for _, form := range []string{s, fmt.Sprintf("%x", s), fmt.Sprintf("%X", s), strings.Trim(fmt.Sprint([]byte(s)), "[]")} {
			if strings.Contains(text, form) {
				t.Errorf("%s shows %q:\n%s", where, s, text)
			}
		}
	}
}

func TestNoWayOfPrintingShowsASecret(t *testing.T) {
	s, who := NewSecret("hidden"), Subject{Token: "hidden"}
	type open struct {
		S   Secret
		P   *Secret
		Who Subject
	}
	type closed struct{ s Secret }
	for _, v := range []any{
		s, &s,
		[]Secret{s},
		map[string]Secret{"k": s},
		map[Secret]int{s: 1},
		open{s, &s, who},
		&open{s, &s, who},
		closed{s},
		&closed{s},
		who, &who,
		[]Subject{who},
		Options{ClientSecret: s},
		&Options{ClientSecret: s},
	} {
		without(t, fmt.Sprintf("%T", v), printed(t, v), "hidden")
	}
	if s.Reveal() != "hidden" || (Secret{}).Reveal() != "" || s.String() != redacted || s.GoString() != redacted {
		t.Error("a secret is not what it holds")
	}
}

func TestTheGrantersShowNothingWhenPrinted(t *testing.T) {
	i := newIssuer(t)
	x, c := exchange(t, options(i, nil)), credentials(t, options(i, nil))
	token := get(t, x, subject("alice"))
	own, err := c.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, v := range []any{x, c} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&all, verb+"\n", v)
		}
	}
	without(t, "printing", all.String(), token, own, clientSecret, subject("alice").Token)
}
