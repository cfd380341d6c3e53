package policy

import (
	"errors"
	"math"
	"regexp"
	"strings"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// meter prices the calls of one condition by the time they take. The library's
// own prices miss some of it: counting the characters of a text is free there,
// and comparing two deep values costs what their topmost level costs.
type meter struct {
	regexps map[string]int // instructions by pattern; read only once compiled
}

// CallCost implements the library's estimator of actual costs.
func (m *meter) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := 1
	switch function {
	case operators.Equals, operators.NotEquals:
		cost += min(weigh(args[0]), weigh(args[1]))
	case operators.In:
		cost += text(args[0])
		if _, keyed := args[1].(traits.Mapper); !keyed {
			cost += weigh(args[1])
		}
	case overloads.StartsWith, overloads.EndsWith:
		cost += text(args[1])
	case overloads.Matches:
		if pattern, ok := args[1].(types.String); ok {
			cost += m.regexps[string(pattern)] * size(args[0]) / stepsPerUnit
		}
	default:
		for _, arg := range args {
			cost += text(arg)
		}
		cost += text(result)
		if strings.HasSuffix(overload, "_tz") {
			cost += zoneCost
		}
	}
	if cost < len(prices) {
		return &prices[cost]
	}
	price := uint64(min(cost, math.MaxInt32))
	return &price
}

// prices spare the small ones an allocation. They are read only.
var prices = func() (p [64]uint64) {
	for i := range p {
		p[i] = uint64(i)
	}
	return p
}()

func size(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	}
	return 0
}

func text(v ref.Val) int { return size(v) / textPerUnit }

// weigh tells what comparing a value costs. It looks into lists and maps that
// the expression itself made only as far as an evaluation could pay for.
func weigh(v ref.Val) int {
	left := maxCost
	return weighWithin(v, &left)
}

func weighWithin(v ref.Val, left *int) int {
	if *left--; *left < 0 {
		return 0
	}
	switch v := v.(type) {
	case *list:
		return v.weight
	case *object:
		return v.weight
	case traits.Lister:
		sum := 0
		for it := v.Iterator(); *left >= 0 && it.HasNext() == types.True; {
			sum += 1 + weighWithin(it.Next(), left)
		}
		return sum
	case traits.Mapper:
		sum := 0
		for it := v.Iterator(); *left >= 0 && it.HasNext() == types.True; {
			key := it.Next()
			sum += 1 + text(key) + weighWithin(v.Get(key), left)
		}
		return sum
	}
	return text(v)
}

var errTextTooLong = errors.New("the text is too long for the regular expression")

// matching replaces matches() by one that is compiled once and does a bounded
// amount of work. Patterns are literals, so every match comes by here.
func (m *meter) matching(overload string) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function:   overloads.Matches,
		OverloadID: overload,
		RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				return nil, err
			}
			instructions, err := types.RegexProgramSize(pattern)
			if err != nil {
				return nil, err
			}
			m.regexps[pattern] = instructions
			return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
				text, ok := values[0].(types.String)
				if !ok {
					return types.MaybeNoSuchOverloadErr(values[0])
				}
				if len(text) > maxSteps/max(1, instructions) {
					return types.WrapErr(errTextTooLong)
				}
				return types.Bool(compiled.MatchString(string(text)))
			}), nil
		},
	}
}
