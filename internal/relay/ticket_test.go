package relay

import (
	"strings"
	"testing"
	"time"
)

func TestATicketOpensOnlyWhereItBelongs(t *testing.T) {
	now := time.Unix(1000, 0)
	s, err := NewSealer([][]byte{[]byte("key")}, time.Minute, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	b := Binding{Principal: [32]byte{1}, Server: "default", Method: "tools/call", Name: "x", Upstream: "u"}
	for _, want := range []Ticket{
		{Kind: Parked, Round: 3, Arguments: Digest([]byte(`{}`)), Instance: "i\x00", ID: "p"},
		{Kind: Reissue, Round: 10, Count: 32, ID: "gabc"},
	} {
		sealed := s.SealTicket(want, b)
		if got, err := s.OpenTicket(sealed, b); err != nil || got != want {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
		if _, err := s.Open(sealed, b); err == nil {
			t.Error("a ticket passed for an upstream's state")
		}
		for _, other := range []Binding{
			{[32]byte{2}, "default", "tools/call", "x", "u"},
			{[32]byte{1}, "default", "prompts/get", "x", "u"},
			{[32]byte{1}, "default", "tools/call", "y", "u"},
			{[32]byte{1}, "default", "tools/call", "x", "v"},
		} {
			if _, err := s.OpenTicket(sealed, other); err == nil {
				t.Errorf("opened under %+v", other)
			}
		}
		for i := range len(sealed) {
			bent := []byte(sealed)
			bent[i] ^= 1
			if _, err := s.OpenTicket(string(bent), b); err == nil {
				t.Fatalf("opened with byte %d altered", i)
			}
		}
	}
	// What an upstream chose to keep is not a ticket.
	state := "\x01" + strings.Repeat("\x00", 44)
	if _, err := s.OpenTicket(s.Seal(state, b), b); err == nil {
		t.Error("an upstream's state passed for a ticket")
	}
	if got, err := s.Open(s.Seal(strings.Repeat("x", MaxState), b), b); err != nil || len(got) != MaxState {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := s.Open(s.Seal(strings.Repeat("x", MaxState+1000), b), b); err == nil {
		t.Error("a state beyond the bound opened")
	}
	sealed := s.SealTicket(Ticket{Kind: Parked}, b)
	now = now.Add(2 * time.Minute)
	if _, err := s.OpenTicket(sealed, b); err == nil {
		t.Error("opened after its time")
	}
}

func TestEqualValuesHaveEqualDigests(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{`{"a":1,"b":[1,2]}`, "{ \"b\" : [1,\n2], \"\\u0061\":1 }", true},
		{`"é"`, `"\u00e9"`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`1e400`, `1e401`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`[1,2]`, `[2,1]`, false},
		{``, `null`, false},
	} {
		if got := Digest([]byte(c.a)) == Digest([]byte(c.b)); got != c.equal {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestInputsAreAnObjectOfObjects(t *testing.T) {
	for raw, ok := range map[string]bool{
		`{}`: true, `{"a":{}}`: true, `{"a":{"x":1},"b":{}}`: true,
		`[]`: false, `null`: false, `5`: false, `{"a":1}`: false, `{"a":null}`: false, `{"a":[]}`: false, `"x"`: false,
	} {
		if _, err := ParseInputs([]byte(raw)); (err == nil) != ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
	in := inputs(t, `{"k\u0031":{"action":"accept"}}`)
	if string(in.Get("k1")) != `{"action":"accept"}` || in.Get("k2") != nil {
		t.Errorf("%+v", in)
	}
}

func TestAnswersHaveTheShapeOfTheirQuestion(t *testing.T) {
	for _, c := range []struct {
		method, result string
		ok             bool
	}{
		{elicitation, `{"action":"accept"}`, true},
		{elicitation, `{"action":1}`, false},
		{elicitation, `{}`, false},
		{sampling, `{"role":"assistant","model":"m","content":{"type":"text"}}`, true},
		{sampling, `{"role":"assistant","model":"m","content":[]}`, true},
		{sampling, `{"role":"assistant","content":[]}`, false},
		{sampling, `{"role":"assistant","model":"m","content":"x"}`, false},
		{roots, `{"roots":[]}`, true},
		{roots, `{"roots":{}}`, false},
	} {
		q := Question{Method: c.method}
		if got := q.Fits([]byte(c.result)); got != c.ok {
			t.Errorf("%s %s: %v", c.method, c.result, got)
		}
	}
}
