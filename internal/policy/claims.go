package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// claimsValue is the claims as a condition sees them.
func claimsValue(claims map[string]any) ref.Val {
	value, _ := claimValue(claims, 0)
	return value
}

// claimValue converts what a JSON decoder makes. The claims hang on a verified
// token, which bounds them.
func claimValue(value any, depth int) (ref.Val, int) {
	if depth > maxDepth {
		return types.NewErr("a claim nested deeper than %d", maxDepth), 1
	}
	switch v := value.(type) {
	case nil:
		return types.NullValue, 1
	case string:
		return types.String(v), 1 + len(v)/textPerUnit
	case bool:
		return types.Bool(v), 1
	case float64:
		return types.Double(v), 1
	case int:
		return types.Int(v), 1
	case int64:
		return types.Int(v), 1
	case uint64:
		return types.Uint(v), 1
	case json.Number:
		number, err := parseNumber(v.String())
		if err != nil {
			return types.WrapErr(err), 1
		}
		return number, 1
	case []string:
		elements, weight := make([]ref.Val, len(v)), 1
		for i, text := range v {
			elements[i] = types.String(text)
			weight += 1 + len(text)/textPerUnit
		}
		return newList(elements, weight, nil), weight
	case []any:
		elements, weight := make([]ref.Val, len(v)), 1
		for i, element := range v {
			e, w := claimValue(element, depth+1)
			elements[i] = e
			weight += w
		}
		return newList(elements, weight, nil), weight
	case map[string]any:
		members, weight := make(map[string]any, len(v)), 1
		for name, member := range v {
			m, w := claimValue(member, depth+1)
			members[name] = m
			weight += w + 1
		}
		return newObject(members, weight, nil), weight
	}
	return types.NewErr("a claim of type %T", value), 1
}

// appendClaim writes a claim so that two that differ to a condition differ.
// It reports false for a value that it cannot tell from others.
func appendClaim(b []byte, value any, depth int) ([]byte, bool) {
	if depth > maxDepth {
		return b, false
	}
	ok := true
	switch v := value.(type) {
	case nil:
		return append(b, 'n'), true
	case string:
		return strconv.AppendQuote(append(b, 's'), v), true
	case bool:
		return strconv.AppendBool(append(b, 'b'), v), true
	case float64:
		return strconv.AppendFloat(append(b, 'f'), v, 'g', -1, 64), true
	case int, int64, uint64, json.Number:
		return fmt.Appendf(append(b, '#'), "%T%v;", v, v), true
	case []string:
		b = append(b, '[')
		for _, element := range v {
			b = append(strconv.AppendQuote(append(b, 's'), element), ',')
		}
		return append(b, ']'), true
	case []any:
		b = append(b, '[')
		for _, element := range v {
			if b, ok = appendClaim(b, element, depth+1); !ok {
				return b, false
			}
			b = append(b, ',')
		}
		return append(b, ']'), true
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = append(strconv.AppendQuote(b, name), ':')
			if b, ok = appendClaim(b, v[name], depth+1); !ok {
				return b, false
			}
			b = append(b, ',')
		}
		return append(b, '}'), true
	}
	return b, false
}
