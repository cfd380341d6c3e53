package policy

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
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
