package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"
)

// purse is what the comparisons of one evaluation may still cost. The meter
// charges an operator after it ran; two large values in one comparison have to
// be stopped before that. It belongs to one evaluation at a time.
type purse struct{ left int }

func (p *purse) take(n int) bool {
	if p == nil {
		return true // values that no caller chose
	}
	p.left -= n
	return p.left >= 0
}

func tooMuch() ref.Val {
	return types.NewErr("the values are too large to compare")
}

// list is a JSON array. weight is what comparing it costs: its values at every
// depth, and their text.
type list struct {
	traits.Lister
	size, weight int
	purse        *purse
}

func (l *list) Equal(other ref.Val) ref.Val {
	if !l.purse.take(l.size + 1) {
		return tooMuch()
	}
	return l.Lister.Equal(other)
}

func (l *list) Contains(value ref.Val) ref.Val {
	if !l.purse.take(l.size + 1) {
		return tooMuch()
	}
	return l.Lister.Contains(value)
}

// object is a JSON object. A member that equals the one that is asked for but for
// its case makes the question fail: some servers read such names alike, so that an
// upstream might read what the condition did not (DESIGN section 3).
type object struct {
	traits.Mapper
	size, weight int
	purse        *purse

	members map[string]any // of a caller's choice; nil: there are no twins to look for
	folded  map[string]int // names by what they fold to, made when first asked for
}

// twin is an error where a name is not the only one that folds to what it does.
func (o *object) twin(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok || len(o.members) == 0 {
		return nil
	}
	if o.folded == nil {
		o.folded = make(map[string]int, len(o.members))
		for m := range o.members {
			o.folded[fold(m)]++
		}
	}
	n := o.folded[fold(string(name))]
	if _, there := o.members[string(name)]; there {
		n--
	}
	if n > 0 {
		return types.NewErr("a member equals one that is asked for but for its case")
	}
	return nil
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	if failed := o.twin(key); failed != nil {
		return failed, false
	}
	return o.Mapper.Find(key)
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	if failed := o.twin(key); failed != nil {
		return failed
	}
	return o.Mapper.Get(key)
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	if failed := o.twin(key); failed != nil {
		return failed
	}
	return o.Mapper.Contains(key)
}

// fold is equal for names that are equal but for case, as strings.EqualFold has it.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
				if r = min(r, other); r < utf8.RuneSelf {
					break
				}
			}
		}
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

func (o *object) Equal(other ref.Val) ref.Val {
	if !o.purse.take(o.size + 1) {
		return tooMuch()
	}
	return o.Mapper.Equal(other)
}

func newList(elements []ref.Val, weight int, p *purse) ref.Val {
	return &list{types.NewRefValList(types.DefaultTypeAdapter, elements), len(elements), weight, p}
}

func newObject(members map[string]any, weight int, p *purse) ref.Val {
	o := &object{Mapper: types.NewStringInterfaceMap(types.DefaultTypeAdapter, members), size: len(members), weight: weight, purse: p}
	if p != nil {
		o.members = members
	}
	return o
}

// emptyObject has no purse, so that everybody can use it.
var emptyObject = newObject(map[string]any{}, 1, nil)

var decoders = sync.Pool{New: func() any {
	d := &decoder{}
	d.dec = jsontext.NewDecoder(&d.raw)
	return d
}}

// decoder turns JSON into values of CEL. Numbers stay exact: an int where it
// fits, else a uint, else a double.
type decoder struct {
	raw    bytes.Buffer
	dec    *jsontext.Decoder
	values int
	purse  *purse
}

var (
	errNotObject = errors.New("not a JSON object")
	errTrailing  = errors.New("something follows the object")
	errValues    = fmt.Errorf("more than %d values", maxValues)
	errDepth     = fmt.Errorf("nested deeper than %d", maxDepth)
)

// decodeObject decodes one JSON object, strictly: no duplicate names, no
// invalid UTF-8, nothing after it. The errors hold nothing of the document.
func decodeObject(raw []byte, limit int, p *purse) (ref.Val, error) {
	if len(raw) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	d := decoders.Get().(*decoder)
	defer func() {
		d.raw = bytes.Buffer{}
		d.dec.Reset(&d.raw) // keeps no caller's bytes
		d.purse = nil
		decoders.Put(d)
	}()
	d.raw = *bytes.NewBuffer(raw)
	d.dec.Reset(&d.raw)
	d.values, d.purse = 0, p
	switch kind := d.dec.PeekKind(); kind {
	case '{', 'n':
	default:
		return nil, errNotObject
	}
	value, _, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errTrailing
	}
	if value == types.NullValue {
		return emptyObject, nil // to an upstream, the same as none
	}
	return value, nil
}

// value reads one value, and tells its weight.
func (d *decoder) value(depth int) (ref.Val, int, error) {
	if d.values++; d.values > maxValues {
		return nil, 0, errValues
	}
	if depth > maxDepth {
		return nil, 0, errDepth
	}
	token, err := d.dec.ReadToken()
	if err != nil {
		return nil, 0, errors.New("not valid JSON")
	}
	switch token.Kind() {
	case 'n':
		return types.NullValue, 1, nil
	case 't':
		return types.True, 1, nil
	case 'f':
		return types.False, 1, nil
	case '"':
		text := token.String()
		return types.String(text), 1 + len(text)/textPerUnit, nil
	case '0':
		number, err := parseNumber(token.String())
		return number, 1, err
	case '[':
		return d.array(depth)
	}
	return d.members(depth)
}

func (d *decoder) array(depth int) (ref.Val, int, error) {
	var elements []ref.Val
	weight := 1
	for d.dec.PeekKind() != ']' {
		element, w, err := d.value(depth + 1)
		if err != nil {
			return nil, 0, err
		}
		elements = append(elements, element)
		weight += w
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, 0, errors.New("not valid JSON")
	}
	return newList(elements, weight, d.purse), weight, nil
}

func (d *decoder) members(depth int) (ref.Val, int, error) {
	members := map[string]any{}
	weight := 1
	for d.dec.PeekKind() != '}' {
		name, err := d.dec.ReadToken()
		if err != nil {
			return nil, 0, errors.New("not valid JSON")
		}
		key := name.String()
		member, w, err := d.value(depth + 1)
		if err != nil {
			return nil, 0, err
		}
		members[key] = member
		weight += w + 1 + len(key)/textPerUnit
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, 0, errors.New("not valid JSON")
	}
	return newObject(members, weight, d.purse), weight, nil
}

func parseNumber(text string) (ref.Val, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(i), nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return types.Uint(u), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, errors.New("a number out of range")
	}
	return types.Double(f), nil
}
