package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// outcome is the value of a condition.
type outcome uint8

const (
	no      outcome = iota
	yes             // also a rule without a condition
	unknown         // it depends on arguments that are not known
	failed          // an error, which does not depend on unknown arguments
)

// condition is a compiled "when". It is immutable and safe for concurrent use.
type condition struct {
	source   string
	program  cel.Program
	loops    bool // whether it has a comprehension, which cancelling ends
	mentions mentions
}

// environment is built once: it does not depend on the policy.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := append(variables(),
		cel.CustomTypeAdapter(registry),
		cel.CustomTypeProvider(provider{registry}),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxRecursion),
		cel.ParserErrorRecoveryLimit(maxRecovery),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegexp),
		cel.ASTValidators(
			cel.ValidateRegexLiterals(),
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting),
		),
	)
	return cel.NewEnv(options...)
})

// placed is a fault of a condition: a RuleError that does not know its rule.
type placed struct {
	line, column int
	message      string
}

// compile compiles a condition, or reports every fault of it.
func compile(source string) (*condition, []placed) {
	env, err := environment()
	if err != nil {
		return nil, []placed{{1, 1, err.Error()}}
	}
	if n := utf8.RuneCountInString(source); n > maxExpression {
		return nil, []placed{{1, 1, fmt.Sprintf("the condition has %d characters, the limit is %d", n, maxExpression)}}
	}
	compiled, issues := env.Compile(source)
	if faults := issues.Errors(); len(faults) > 0 {
		out := make([]placed, 0, len(faults))
		for _, f := range faults {
			out = append(out, placed{max(1, f.Location.Line()), max(0, f.Location.Column()) + 1, f.Message})
		}
		return nil, out
	}
	tree := compiled.NativeRep()
	if t := compiled.OutputType(); !t.IsExactType(types.BoolType) && !t.IsExactType(types.DynType) {
		return nil, []placed{{1, 1, fmt.Sprintf("the condition is of type %s, it has to be a bool", cel.FormatCELType(t))}}
	}
	c := &condition{source: source}
	root := ast.NavigateAST(tree)
	c.mentions = mentioned(root)
	c.loops = len(ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind))) > 0
	if faults := forbidden(tree, root); len(faults) > 0 {
		return nil, faults
	}
	estimate, err := env.EstimateCost(compiled, unsized{})
	if err != nil {
		return nil, []placed{{1, 1, "the cost of the condition cannot be estimated: " + err.Error()}}
	}
	if estimate.Min > maxCost {
		return nil, []placed{{1, 1, fmt.Sprintf("the condition costs at least %d, the limit is %d", estimate.Min, maxCost)}}
	}
	m := &meter{regexps: map[string]int{}}
	c.program, err = env.Program(compiled,
		cel.EvalOptions(cel.OptOptimize),
		cel.OptimizeRegex(m.matching(overloads.MatchesString), m.matching(overloads.Matches)),
		cel.CostTracking(m),
		cel.CostLimit(maxCost),
		cel.InterruptCheckFrequency(interruptEvery),
	)
	if err != nil {
		return nil, []placed{{1, 1, err.Error()}}
	}
	return c, nil
}

// forbidden finds what the types allow and a condition may not have.
func forbidden(tree *ast.AST, root ast.NavigableExpr) (out []placed) {
	report := func(e ast.Expr, message string) {
		at := tree.SourceInfo().GetStartLocation(e.ID())
		out = append(out, placed{max(1, at.Line()), max(0, at.Column()) + 1, message})
	}
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.StructKind)) {
		report(e, "a condition cannot construct a message")
	}
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.CallKind)) {
		call := e.AsCall()
		if call.FunctionName() != overloads.Matches || len(call.Args()) == 0 {
			continue
		}
		// A pattern that a caller could choose has no bound, and one that is
		// put together of names and claims matches more than it seems to.
		if pattern := call.Args()[len(call.Args())-1]; pattern.Kind() != ast.LiteralKind {
			report(pattern, "the pattern of matches() has to be a literal")
		}
	}
	return out
}

// unsized leaves every estimate to the library: the sizes are not known, and
// only the least cost counts.
type unsized struct{}

func (unsized) EstimateSize(cost.AstNode) *cost.SizeEstimate { return nil }

func (unsized) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

var errNotBool = errors.New("the condition is not a bool")

// eval evaluates the condition. The error tells an operator why it failed.
func (c *condition) eval(ctx context.Context, f *frame) (outcome, error) {
	f.purse.left = maxCost
	value, _, err := c.run(ctx, f)
	if err != nil {
		var cancelled interpreter.EvalCancelledError
		if !f.known && c.mentions.arguments && errors.As(err, &cancelled) {
			return unknown, nil // with the arguments it may end sooner
		}
		return failed, err
	}
	return judged(value, nil)
}

// judged is the outcome that a value stands for.
func judged(value ref.Val, err error) (outcome, error) {
	if err != nil {
		return failed, err
	}
	switch v := value.(type) {
	case types.Bool:
		if v {
			return yes, nil
		}
		return no, nil
	case *types.Unknown:
		return unknown, nil
	}
	return failed, errNotBool
}

// run leaves out what makes an evaluation cancellable where it cannot be long.
func (c *condition) run(ctx context.Context, f *frame) (ref.Val, *cel.EvalDetails, error) {
	if c.loops {
		return c.program.ContextEval(ctx, f)
	}
	return c.program.Eval(f)
}
