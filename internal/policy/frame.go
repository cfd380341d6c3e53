package policy

import (
	"fmt"
	"sync"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// frame is what one evaluation sees: the variables of a target and of a call.
// Frames are pooled; one belongs to one decision at a time.
type frame struct {
	*selection
	lane   *lane
	target Target // a copy, so that the caller's own need not escape

	args  []byte
	known bool // whether there are arguments; else they are unknown

	arguments   ref.Val // decoded when a condition first asks
	annotations ref.Val
	tool        record
	purse       purse
}

var frames = sync.Pool{New: func() any {
	f := &frame{}
	f.tool = record{toolType, f}
	return f
}}

// ResolveName implements the library's Activation.
func (f *frame) ResolveName(name string) (any, bool) {
	switch name {
	case "arguments":
		if !f.known {
			return unknownArguments, true
		}
		if f.arguments == nil {
			f.arguments = decoded(f.args, maxArguments, "the arguments", &f.purse)
		}
		return f.arguments, true
	case "principal":
		return &f.principal.record, true
	case "server":
		return f.lane.server, true
	case "upstream":
		return f.lane.upstream, true
	case "kind":
		return kindNames[kindOf(f.target.Kind)], true
	case "name":
		return types.String(f.target.Name), true
	case "tool":
		return &f.tool, true
	}
	return nil, false
}

// Parent implements the library's Activation.
func (f *frame) Parent() interpreter.Activation { return nil }

func (f *frame) field(name string) ref.Val {
	switch name {
	case "name":
		return types.String(f.target.Original)
	case "annotations":
		if f.annotations == nil {
			f.annotations = decoded(f.target.Annotations, maxAnnotations, "the annotations", nil)
		}
		return f.annotations
	}
	return types.NewErr("no such field: %s", name)
}

// unknownArguments makes every expression unknown whose value depends on the
// arguments. It is read only: the library merges unknowns into new ones.
var unknownArguments = types.NewUnknown(0, types.NewAttributeTrail("arguments"))

// decoded is the object, or an error value.
func decoded(raw []byte, limit int, what string, p *purse) ref.Val {
	if len(raw) == 0 {
		return emptyObject
	}
	value, err := decodeObject(raw, limit, p)
	if err != nil {
		return types.WrapErr(fmt.Errorf("%s cannot be judged: %w", what, err))
	}
	return value
}
