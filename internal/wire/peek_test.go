package wire

import "testing"

func TestABeginningShowsWhatItCan(t *testing.T) {
	for _, c := range []struct {
		head       string
		kind       Kind
		failure    bool
		resultType string
	}{
		{``, Unknown, false, ""},
		{`[`, Unknown, false, ""},
		{`{"jsonrpc":"2.0","id":`, Unknown, false, ""},
		{`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","te`, Response, false, ""},
		{`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{`, Response, false, `"complete"`},
		{`{"result":{"content":[{"resultType":"x"}],"resultType":"task","c`, Response, false, `"task"`},
		{`{"result":{"a":1},"id":1}`, Response, false, ""},
		{`{"result":{"resultType":"comp`, Response, false, ""},
		{`{"id":1,"error":{"code":1,"da`, Response, true, ""},
		{`{"method":"notifications/x","params":{`, Notification, false, ""},
		{`{"id":7,"method":"ping","params":{`, Request, false, ""},
	} {
		b := Peek([]byte(c.head))
		if b.Kind != c.kind || b.Failure != c.failure || string(b.ResultType) != c.resultType {
			t.Errorf("%s: %v %v %q", c.head, b.Kind, b.Failure, b.ResultType)
		}
	}
}

func TestARequiredValueIsRequired(t *testing.T) {
	p := Plan{Require: []Member{{Name: "resultType", Value: []byte(`"complete"`)}}}
	for msg, good := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`:         true,
		`{"jsonrpc":"2.0","id":1,"result":{"x":{"resultType":"task"}}}`:       true,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"resultType" : "task"}}`:     false,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete2"}}`:        false,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":1}}`:                  false,
		`{"jsonrpc":"2.0","id":1,"result":{"result\u0054ype":"input_req"}}`:   false,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"c\u006fmplete"}}`:    true,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"resultType"}}`:  true,
		`{"jsonrpc":"2.0","id":1,"result":{"_meta":{},"resultType":"compl"}}`: false,
	} {
		for _, drop := range [][]string{nil, {"resultType"}} {
			p.Drop = drop
			if _, err := p.Apply(nil, []byte(msg)); (err == nil) != good {
				t.Errorf("dropping %v, %s: %v", drop, msg, err)
			}
		}
	}
}
