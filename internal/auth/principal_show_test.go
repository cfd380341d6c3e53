package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestAPrincipalNeverShowsItsBearer(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	raw := good(idp)
	p, err := identify(a, raw)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "p", p, "v", *p, "a", a, slog.Group("g", "p", p))
	}
	shown := map[string]string{"log": log.String(), "json": string(must(json.Marshal([]any{p, *p})))}
	for _, verb := range strings.Fields("%v %+v %#v %s %q %x %X %d %o %t %c %e %U") {
		shown[verb] = fmt.Sprintf(verb, p) + fmt.Sprintf(verb, *p)
		shown["in "+verb] = fmt.Sprintf(verb, []any{p, struct{ P *Principal }{p}, struct{ P Principal }{*p}})
	}
	for how, s := range shown {
		for _, part := range strings.Split(raw, ".") {
			if strings.Contains(s, part) || strings.Contains(s, fmt.Sprintf("%x", part)) {
				t.Errorf("%s shows it: %s", how, s)
			}
		}
		if !strings.Contains(s, "alice") && !strings.HasPrefix(how, "in ") {
			t.Errorf("%s does not name the subject: %s", how, s)
		}
	}
	var none *Principal
	if s := fmt.Sprint(none); s != "<nil>" {
		t.Errorf("none is shown as %s", s)
	}
}

func TestLocalAndAnonymousAreAlwaysTheSame(t *testing.T) {
	l, a := Local(), Anonymous()
	if l != Local() || a != Anonymous() {
		t.Error("they are made anew")
	}
	if Local().Key != Key(IssuerLocal, "", "local") || Anonymous().Key != Key(IssuerAnonymous, "", "anonymous") {
		t.Error("their keys are others")
	}
	if Local().Bearer() != "" || Anonymous().Bearer() != "" || Local().TokenHash != [32]byte{} {
		t.Error("they bear something")
	}
}
