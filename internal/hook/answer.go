package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The members of an answer. Others are for hooks to add, and are passed over.
var answerMembers = [...]string{"decision", "message", "arguments", "result"}

// parseAnswer reads the answer of an endpoint strictly: one JSON object, without
// duplicate names at any depth, in UTF-8, and nothing behind it. What the
// verdict rewrites aliases raw. The error is a *failure of badAnswer. Whether
// the verdict fits the event is checked later, with that of functions.
func parseAnswer(raw []byte) (Verdict, error) {
	v, err := readAnswer(raw)
	if err != nil {
		return Verdict{}, &failure{kind: badAnswer, err: err}
	}
	return v, nil
}

func readAnswer(raw []byte) (v Verdict, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if dec.PeekKind() != '{' {
		return v, errors.New("a JSON object is expected")
	}
	if _, err := dec.ReadToken(); err != nil {
		return v, err
	}
	decision := ""
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return v, err
		}
		member, err := whichMember(name.String())
		if err != nil {
			return v, err
		}
		value, err := dec.ReadValue()
		if err != nil {
			return v, err
		}
		end := int(dec.InputOffset()) // of raw, which was read from memory
		own := raw[end-len(value) : end : end]
		switch member {
		case "decision":
			decision, err = text(own)
		case "message":
			v.Message, err = text(own)
		case "arguments":
			v.Arguments = own
		case "result":
			v.Result = own
		}
		if err != nil {
			return v, fmt.Errorf("%s: %w", member, err)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return v, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return v, errors.New("something stands behind the object")
	}
	switch decision {
	case "allow":
	case "deny":
		v.Deny = true
	case "":
		return v, errors.New("it has no decision")
	default:
		return v, errors.New("its decision is neither allow nor deny")
	}
	return v, nil
}

// whichMember returns the member of ours that has the name, or "". A name that
// is ours but for its case is refused: the hook meant something, and other
// readers would have taken it for that.
func whichMember(name string) (string, error) {
	for _, ours := range answerMembers {
		if name == ours {
			return ours, nil
		}
		if strings.EqualFold(name, ours) {
			return "", fmt.Errorf("a member is written unlike %q", ours)
		}
	}
	return "", nil
}

// text decodes a JSON string.
func text(raw []byte) (string, error) {
	if raw[0] != '"' {
		return "", errors.New("a string is expected")
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err
}

// check reports that the verdict does not fit the event, or is longer than most.
func (v *Verdict) check(e Event, most int64) error {
	var why string
	switch {
	case v.Deny && (v.Arguments != nil || v.Result != nil):
		why = "it denies and rewrites"
	case v.Arguments != nil && e.after():
		why = "it rewrites arguments after the call"
	case v.Result != nil && !e.after():
		why = "it rewrites a result before the call"
	case v.Arguments != nil && !object(v.Arguments):
		why = "its arguments are no object"
	case v.Result != nil && !object(v.Result):
		why = "its result is no object"
	case int64(max(len(v.Arguments), len(v.Result))) > most:
		return &failure{kind: tooLong}
	default:
		return nil
	}
	return &failure{kind: badAnswer, err: errors.New(why)}
}

// object reports that a value, known to be valid JSON, is an object.
func object(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
