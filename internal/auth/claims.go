package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds how deep the members of a token may nest.
const maxDepth = 32

var (
	errNotAnObject = errors.New("not a JSON object")
	errTooDeep     = fmt.Errorf("nested deeper than %d", maxDepth)
)

// object parses one JSON object strictly: UTF-8, nothing after it, and no name
// twice at any depth, for two readers would take different ones.
func object(raw []byte) (map[string]any, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if dec.PeekKind() != '{' {
		return nil, errNotAnObject
	}
	v, err := value(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errNotAnObject
	}
	return v.(map[string]any), nil
}

func value(dec *jsontext.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	switch tok.Kind() {
	case '{':
		m := make(map[string]any)
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, fmt.Errorf("JSON: %w", err)
			}
			key := name.String() // before the next token is read into its place
			if m[key], err = value(dec, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := dec.ReadToken()
		return m, err
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := value(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.ReadToken()
		return list, err
	case '"':
		return tok.String(), nil
	case '0':
		return number(tok.String())
	case 't', 'f':
		return tok.Bool(), nil
	default:
		return nil, nil
	}
}

// number is an int64 where the value is integral and fits, else the float64 that
// comes nearest.
func number(raw string) (any, error) {
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return nil, fmt.Errorf("JSON number: %w", err)
	}
	// 2^63 itself does not fit; -2^63 does.
	if f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 && !isInteger(raw) {
		return int64(f), nil
	}
	return f, nil
}

// isInteger tells whether a number is written without fraction and exponent: such
// a one that did not parse as int64 does not fit, whatever its float64 says.
func isInteger(raw string) bool { return !strings.ContainsAny(raw, ".eE") }

// lastDate is the end of the year 9999: a later date is a mistake of the issuer,
// such as milliseconds.
const lastDate = 253402300799

// date reads a NumericDate, to the second. ok is false for what is none.
func date(v any) (t time.Time, ok bool) {
	var s int64
	switch n := v.(type) {
	case int64:
		s = n
	case float64:
		if !(n >= 0 && n <= lastDate) {
			return time.Time{}, false
		}
		s = int64(n)
	default:
		return time.Time{}, false
	}
	return time.Unix(s, 0).UTC(), s >= 0 && s <= lastDate
}

// words reads a claim that is one string or an array of strings.
func words(v any) (list []string, ok bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		for _, e := range v {
			s, isString := e.(string)
			if !isString {
				return nil, false
			}
			list = append(list, s)
		}
		return list, true
	}
	return nil, false
}

// scopes reads a claim of scopes: separated by spaces, or an array. It sorts them
// and drops repetitions.
func scopes(v any) (list []string, ok bool) {
	given, ok := words(v)
	if !ok {
		return nil, false
	}
	for _, s := range given {
		list = append(list, strings.Fields(s)...)
	}
	return tidy(list), true
}

// tidy sorts a copy of list and drops repetitions.
func tidy(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
