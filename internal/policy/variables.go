package policy

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// The types of principal and tool. They have fields, so that a misspelt one is
// an error at load; a condition cannot construct one.
var (
	principalType = types.NewObjectType("penstock.Principal")
	toolType      = types.NewObjectType("penstock.Tool")

	claimsType = types.NewMapType(types.StringType, types.DynType)

	principalFields = map[string]*types.Type{
		"issuer": types.StringType, "subject": types.StringType, "tenant": types.StringType,
		"scopes": types.NewListType(types.StringType), "claims": claimsType,
	}
	toolFields = map[string]*types.Type{"name": types.StringType, "annotations": claimsType}
)

// variables declares what a condition can refer to.
func variables() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Variable("principal", principalType),
		cel.Variable("server", cel.StringType),
		cel.Variable("upstream", cel.StringType),
		cel.Variable("kind", cel.StringType),
		cel.Variable("name", cel.StringType),
		cel.Variable("tool", toolType),
		cel.Variable("arguments", claimsType),
	}
}

// provider adds the two types to those of the library.
type provider struct{ types.Provider }

func (p provider) fields(name string) map[string]*types.Type {
	switch name {
	case principalType.TypeName():
		return principalFields
	case toolType.TypeName():
		return toolFields
	}
	return nil
}

func (p provider) FindStructType(name string) (*types.Type, bool) {
	switch name {
	case principalType.TypeName():
		return types.NewTypeTypeWithParam(principalType), true
	case toolType.TypeName():
		return types.NewTypeTypeWithParam(toolType), true
	}
	return p.Provider.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	fields := p.fields(name)
	if fields == nil {
		return p.Provider.FindStructFieldNames(name)
	}
	names := make([]string, 0, len(fields))
	for field := range fields {
		names = append(names, field)
	}
	return names, true
}

func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields := p.fields(name)
	if fields == nil {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := fields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type:  t,
		IsSet: func(any) bool { return true },
		GetFrom: func(target any) (any, error) {
			r, ok := target.(*record)
			if !ok {
				return nil, fmt.Errorf("no such field: %s", field)
			}
			value := r.owner.field(field)
			if failed, ok := value.(*types.Err); ok {
				return nil, failed
			}
			return value, nil
		},
	}, true
}

// fielder has the fields of a record: an error value for one it has not.
type fielder interface{ field(name string) ref.Val }

// record is a value of one of the two types.
type record struct {
	typ   *types.Type
	owner fielder
}

func (r *record) Type() ref.Type { return r.typ }
func (r *record) Value() any     { return r }

func (r *record) Equal(other ref.Val) ref.Val {
	o, ok := other.(*record)
	return types.Bool(ok && o == r)
}

func (r *record) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a %s does not convert to %s", r.typ.TypeName(), t)
}

func (r *record) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return r.typ
	}
	return types.NewErr("a %s does not convert to %s", r.typ.TypeName(), t.TypeName())
}

// Get makes dyn(principal).subject work as principal.subject does.
func (r *record) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	return r.owner.field(string(name))
}

// principal is the caller as a condition sees it. It is made once per
// selection, and only where a condition mentions it.
type principal struct {
	record
	issuer, subject, tenant, scopes, claims ref.Val
}

func newPrincipal(c *Caller) *principal {
	p := &principal{
		issuer:  types.String(c.Issuer),
		subject: types.String(c.Subject),
		tenant:  types.String(c.Tenant),
		scopes:  types.NewStringList(types.DefaultTypeAdapter, c.Scopes),
		claims:  claimsValue(c.Claims),
	}
	p.record = record{principalType, p}
	return p
}

func (p *principal) field(name string) ref.Val {
	switch name {
	case "issuer":
		return p.issuer
	case "subject":
		return p.subject
	case "tenant":
		return p.tenant
	case "scopes":
		return p.scopes
	case "claims":
		return p.claims
	}
	return types.NewErr("no such field: %s", name)
}

// frame is what one evaluation sees: the variables of a target and of a call.
// Frames are pooled; one belongs to one decision at a time.
type frame struct {
	*selection
	lane   *lane
	target *Target

	args  []byte
	known bool // whether there are arguments; else they are unknown

	arguments   ref.Val // decoded when a condition first asks
	annotations ref.Val
	tool        record
	purse       purse
}

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
