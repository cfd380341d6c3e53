package mcp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"pgregory.net/rapid"
)

func TestHeaderValuesAreEncodedOnlyWhereTheyMust(t *testing.T) {
	for _, tc := range []struct{ value, header string }{
		{"", ""},
		{"search_books", "search_books"},
		{"file:///a b", "file:///a b"},
		{"file:///Zażółć", "=?base64?ZmlsZTovLy9aYcW8w7PFgsSH?="},
		{" lead", "=?base64?IGxlYWQ=?="},
		{"trail ", "=?base64?dHJhaWwg?="},
		{"a\tb", "=?base64?YQli?="},
		{"a\nb", "=?base64?YQpi?="},
		{"=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="},
		{"=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"=?BASE64?eA==?=", "=?BASE64?eA==?="},
		{"=?base64?eA==", "=?base64?eA=="},
		{"eA==?=", "eA==?="},
	} {
		got := EncodeHeader(tc.value)
		if got != tc.header {
			t.Errorf("EncodeHeader(%q) = %q, want %q", tc.value, got, tc.header)
		}
		back, err := DecodeHeader(got)
		if err != nil || back != tc.value {
			t.Errorf("DecodeHeader(%q) = %q, %v, want %q", got, back, err, tc.value)
		}
	}
}

func TestMalformedHeaderValuesAreRefused(t *testing.T) {
	for _, header := range []string{
		"=?base64?eA?=",   // no padding
		"=?base64?eB==?=", // padding bits set: not strict
		"=?base64?_-8=?=", // URL alphabet
		"=?base64?e A=?=", // a space
		"=?base64?gA==?=", // not UTF-8
		"Zażółć", "a\x00", "\x7f", "a\rb",
	} {
		if got, err := DecodeHeader(header); !errors.Is(err, ErrHeaderValue) {
			t.Errorf("DecodeHeader(%q) = %q, %v, want ErrHeaderValue", header, got, err)
		}
	}
}

func TestPlainHeaderValuesCostNoAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		v, err := DecodeHeader(EncodeHeader("library__search_books"))
		if err != nil || v == "" {
			t.Error(v, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is encoded survives the trip through Go's HTTP client and server.
func TestEncodedValuesSurviveHTTP(t *testing.T) {
	got := ""
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = DecodeHeader(r.Header.Get(HeaderName))
	}))
	defer srv.Close()
	for _, v := range []string{" a ", "\ta", "Zażółć\n", "=?base64?x?=", "plain"} {
		req, err := http.NewRequest(http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(HeaderName, EncodeHeader(v))
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got != v {
			t.Errorf("got %q, want %q", got, v)
		}
	}
}

func TestEveryTextSurvivesTheSentinel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.String(), rapid.StringMatching(`=\?(base64|BASE64)\?[a-zA-Z0-9+/=]*\?=`)).Draw(t, "value")
		got, err := DecodeHeader(EncodeHeader(v))
		if err != nil || got != v {
			t.Fatalf("got %q, %v, want %q", got, err, v)
		}
	})
}

func FuzzDecodedHeadersRoundTrip(f *testing.F) {
	for _, s := range []string{"a", "=?base64?eA==?=", "=?base64??=", "=?base64?=", "=?base64?\xff?="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		v, err := DecodeHeader(header)
		if err != nil {
			return
		}
		again, err := DecodeHeader(EncodeHeader(v))
		if err != nil || again != v {
			t.Fatalf("%q decoded to %q, then %q, %v", header, v, again, err)
		}
	})
}
