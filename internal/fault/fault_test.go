package fault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestCatalogueEntriesAreComplete(t *testing.T) {
	names := map[string]Code{}
	all := All()
	for i, e := range all {
		if e.Name == "" || e.Advice == "" || e.HTTP < 200 || e.HTTP > 599 || e.Legacy < 200 || e.Legacy > 599 {
			t.Errorf("%d is incomplete: %+v", e.Code, e)
		}
		if other, taken := names[e.Name]; taken {
			t.Errorf("%d and %d are both called %q", e.Code, other, e.Name)
		}
		names[e.Name] = e.Code
		if i > 0 && all[i-1].Code <= e.Code {
			t.Errorf("%d stands behind %d", e.Code, all[i-1].Code)
		}
		if got, ok := Lookup(e.Code); !ok || got != e || e.Code.Name() != e.Name {
			t.Errorf("Lookup(%d) is %+v, %v", e.Code, got, ok)
		}
	}
	if len(all) != len(catalogue) {
		t.Errorf("All has %d entries of %d", len(all), len(catalogue))
	}
}

// DESIGN section 13 for ours, checklist 28 for the rest.
func TestCodesLieWhereTheyMayBeSent(t *testing.T) {
	protocol := map[Code]bool{
		Parse: true, InvalidRequest: true, MethodNotFound: true, InvalidParams: true, Internal: true,
		HeaderMismatch: true, MissingCapability: true, UnsupportedVersion: true, ResourceNotFound: true, SessionNotFound: true,
	}
	for _, e := range All() {
		if ours := e.Code <= -31000 && e.Code >= -31999; !ours && !protocol[e.Code] {
			t.Errorf("%s has code %d, which is neither ours nor the protocol's", e.Name, e.Code)
		}
	}
	if _, ok := Lookup(-32042); ok {
		t.Error("-32042 is in the catalogue")
	}
	if Code(-1).Name() != "unknown" {
		t.Error("a foreign code has a name")
	}
}

// Checklist section 9: the statuses towards modern clients that are mandated.
func TestStatusesAreThoseOfTheChecklist(t *testing.T) {
	for code, want := range map[Code][2]int{
		Parse:              {400, 400},
		InvalidRequest:     {400, 400},
		MethodNotFound:     {404, 200}, // T3: a 404 within a legacy session would end it
		InvalidParams:      {200, 200},
		Internal:           {200, 200},
		HeaderMismatch:     {400, 400},
		MissingCapability:  {400, 200},
		UnsupportedVersion: {400, 400},
		ResourceNotFound:   {200, 200},
		SessionNotFound:    {404, 404},
		TooLarge:           {413, 413},
		NotAcceptable:      {406, 406},
		BadMediaType:       {415, 415},
		ForbiddenOrigin:    {403, 403},
		AtCapacity:         {503, 503},
		RateLimited:        {429, 429},
	} {
		if e, _ := Lookup(code); e.HTTP != want[0] || e.Legacy != want[1] {
			t.Errorf("%s: HTTP %d and %d, want %v", code.Name(), e.HTTP, e.Legacy, want)
		}
	}
	for code, retry := range map[Code]bool{UpstreamUnavailable: true, UpstreamTimeout: false, ConnectionLost: false, AtCapacity: true, InvalidParams: false} {
		if e, _ := Lookup(code); e.Retry != retry {
			t.Errorf("%s: retry %v", code.Name(), e.Retry)
		}
	}
}

func TestFromFindsTheErrorOrHidesIt(t *testing.T) {
	known := Wrap(io.EOF, UpstreamTimeout, "upstream %q is slow", "u").WithHint("wait %d s", 3)
	for _, err := range []error{known, fmt.Errorf("call: %w", known), errors.Join(io.EOF, known)} {
		if got := From(err); got != known {
			t.Errorf("From(%v) is %v", err, got)
		}
	}
	if !errors.Is(known, io.EOF) {
		t.Error("the cause is lost")
	}
	hidden := From(errors.New("dial tcp 10.1.2.3:80: refused"))
	if hidden.Code != Internal || strings.Contains(hidden.Public(), "10.1.2.3") || !strings.Contains(hidden.Error(), "10.1.2.3") {
		t.Errorf("public %q, log %q", hidden.Public(), hidden.Error())
	}
}

func TestPublicTextHasMessageAndHintAndNoCause(t *testing.T) {
	e := Wrap(errors.New("secret cause"), UpstreamUnavailable, "upstream %q is away", "u")
	if got := e.Public(); got != `upstream "u" is away` {
		t.Error(got)
	}
	if got := e.WithHint("try %s", "again").Public(); got != `upstream "u" is away; try again` {
		t.Error(got)
	}
	if got := e.Error(); got != `upstream_unavailable (-31001): upstream "u" is away: secret cause` {
		t.Error(got)
	}
}

func TestWithHintAndWithDataLeaveTheOriginal(t *testing.T) {
	e := New(InvalidParams, "no")
	hinted, laden := e.WithHint("h"), e.WithData([]byte(`{}`))
	if e.Hint != "" || e.Data != nil {
		t.Errorf("the original changed: %+v", e)
	}
	if hinted.Hint != "h" || hinted.Data != nil || string(laden.Data) != `{}` || laden.Hint != "" {
		t.Errorf("%+v %+v", hinted, laden)
	}
	if e, _ := Lookup(AtCapacity); e.HTTP != http.StatusServiceUnavailable {
		t.Errorf("at capacity is HTTP %d", e.HTTP)
	}
}
