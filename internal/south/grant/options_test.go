package grant

import (
	"strings"
	"testing"
)

func TestFaultsOfTheOptionsAreToldAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no address":          {func(o *Options) { o.TokenURL = "" }, "token_url"},
		"no URL":              {func(o *Options) { o.TokenURL = "https://idp\x7f/hidden" }, "token_url"},
		"a path":              {func(o *Options) { o.TokenURL = "/hidden" }, "token_url"},
		"plain HTTP":          {func(o *Options) { o.TokenURL = "http://idp.example/hidden" }, "https"},
		"plain, lookalike":    {func(o *Options) { o.TokenURL = "http://127.0.0.1.example/hidden" }, "https"},
		"another scheme":      {func(o *Options) { o.TokenURL = "ftp://localhost/hidden" }, "https"},
		"a password":          {func(o *Options) { o.TokenURL = "https://me:hidden@idp.example/" }, "password"},
		"a fragment":          {func(o *Options) { o.TokenURL = "https://idp.example/#hidden" }, "fragment"},
		"no client":           {func(o *Options) { o.ClientID = "" }, "client_id"},
		"an empty scope":      {func(o *Options) { o.Scopes = []string{"a", ""} }, "scopes[1]"},
		"two in one":          {func(o *Options) { o.Scopes = []string{"hidden b"} }, "scopes[0]"},
		"a relative resource": {func(o *Options) { o.Resource = "hidden" }, "resource"},
		"resource fragment":   {func(o *Options) { o.Resource = "https://up/#hidden" }, "resource"},
	} {
		o := options(nil, nil)
		o.TokenURL = "https://idp.example/token"
		c.change(&o)
		_, err := NewExchange(o)
		_, same := NewClientCredentials(o)
		if err == nil || same == nil || err.Error() != same.Error() || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v; %v", name, err, same)
		}
	}
	if _, err := NewExchange(Options{Scopes: []string{""}}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three faults: %v", err)
	}
	for _, u := range []string{"https://idp.example/token?tenant=1", "http://localhost:1/t", "http://127.9.9.9/t", "http://[::1]:80/t"} {
		o := options(nil, nil)
		o.TokenURL = u
		exchange(t, o)
		credentials(t, o)
	}
}
