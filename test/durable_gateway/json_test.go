package durablegateway_test

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func quote(s string) string {
	raw, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// at returns the raw value at a path of names and indexes, or "" where there is none. Its bytes are those of the message.
func at(raw string, path ...any) string {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			var m map[string]jsontext.Value
			if json.Unmarshal([]byte(raw), &m) != nil {
				return ""
			}
			raw = string(m[step])
		case int:
			var l []jsontext.Value
			if json.Unmarshal([]byte(raw), &l) != nil || step >= len(l) {
				return ""
			}
			raw = string(l[step])
		}
	}
	return raw
}

// text is at, for a string, decoded.
func text(raw string, path ...any) string {
	var s string
	if json.Unmarshal([]byte(at(raw, path...)), &s) != nil {
		return ""
	}
	return s
}
