package wire

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// place is where in a message a value stands, as far as a plan cares.
type place uint8

const (
	elsewhere place = iota // skipped
	atEnvelope
	atVersion // jsonrpc
	atResult
	atError
	atMeta         // result._meta
	atMetaUI       // result._meta.ui
	atContents     // result.contents
	atContentsItem // result.contents[]
	atContent      // result.content, result.messages[].content
	atContentItem  // one of its elements, or itself
	atResource     // its resource
	atMessages     // result.messages
	atMessage      // result.messages[]
	atErrorData    // error.data
	atURI
)

// walkState is what the walk over one message has met.
type walkState struct {
	names [3]nameSet // envelope; result or error; _meta

	id, version, method, result, failure bool
	meta                                 bool   // result._meta goes out
	set, defaults, setMeta               uint64 // members of the plan that are done, by index
}

func (w *walkState) reset() {
	for i := range w.names {
		w.names[i].reset()
	}
	w.id, w.version, w.method, w.result, w.failure, w.meta = false, false, false, false, false, false
	w.set, w.defaults, w.setMeta = 0, 0, 0
}

func (r *rewriter) message() error {
	if err := r.plan.check(); err != nil {
		return err
	}
	c, err := r.next()
	if err != nil {
		return err
	}
	if c != '{' {
		return r.broken("a message is an object")
	}
	if err := r.object(atEnvelope); err != nil {
		return err
	}
	for {
		if r.pos = skipSpace(r.buf, r.pos); r.pos < len(r.buf) {
			return r.broken("there is data behind the message")
		}
		more, err := r.more()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if err := r.emit(r.pos); err != nil {
		return err
	}
	w := &r.walk
	switch {
	case !w.version:
		return fault.New(fault.InvalidAnswer, "jsonrpc of the message is not \"2.0\"")
	case r.plan.ID != nil && !w.id:
		return fault.New(fault.InvalidAnswer, "the message has no id")
	}
	return checkShape(w.method, w.result, w.failure)
}

// object walks the members of the object at pos.
func (r *rewriter) object(p place) error {
	names := r.namesOf(p)
	drops := p == atResult && len(r.plan.Drop)+len(r.plan.DropNonObject) > 0 || p == atMeta && len(r.plan.DropMeta) > 0
	kept := false // a member went out, so that the next one needs a comma
	r.pos++
	for first := true; ; first = false {
		c, err := r.next()
		if err != nil {
			return err
		}
		if c == '}' {
			if err := r.complete(p, kept); err != nil {
				return err
			}
			r.pos++
			return nil
		}
		if !first {
			if c, err = r.comma(c, drops, kept); err != nil {
				return err
			}
		}
		if c != '"' {
			return r.broken("a member name is expected")
		}
		a, err := r.name(p, names, drops)
		if err != nil {
			return err
		}
		if a.forbidden {
			return r.broken("a member of the result is not allowed here")
		}
		if a.require != nil {
			if err := r.required(a.require); err != nil {
				return err
			}
		}
		if a.dropNonObject {
			a.drop = r.buf[r.pos] != '{'
		}
		if a.drop {
			if err := r.remove(r.hold); err != nil {
				return err
			}
			continue
		}
		r.hold = -1
		r.walk.defaults |= a.defaults
		kept = true
		if a.with != nil {
			err = r.replace(a.with)
		} else {
			err = r.value(a.below)
		}
		if err != nil {
			return err
		}
	}
}

func (r *rewriter) namesOf(p place) *nameSet {
	switch p {
	case atEnvelope:
		return &r.walk.names[0]
	case atResult, atError:
		return &r.walk.names[1]
	case atMeta:
		return &r.walk.names[2]
	}
	return nil
}

// comma passes the comma between two members. Where members are dropped, it
// holds the comma back with the name, or lets it fall if there is nothing before it.
func (r *rewriter) comma(c byte, drops, kept bool) (byte, error) {
	if c != ',' {
		return 0, r.broken("a comma or } is expected")
	}
	switch {
	case drops && kept:
		r.hold = r.pos
		r.pos++
	case drops:
		if err := r.emit(r.pos); err != nil {
			return 0, err
		}
		r.pos++
		r.mark = r.pos
	default:
		r.pos++
	}
	return r.next()
}

// name passes a member's name and colon up to the value, and says what to do
// with the member. Where members are dropped, the name is still held back.
func (r *rewriter) name(p place, names *nameSet, drops bool) (a action, err error) {
	if r.hold < 0 {
		r.hold = r.pos
	}
	quoted, err := r.quoted()
	if err != nil {
		return a, err
	}
	name, scratch, err := decodeName(quoted, r.scratch)
	r.scratch = scratch
	if err != nil {
		return a, fault.Wrap(err, fault.InvalidAnswer, "a member name before byte %d of the message is invalid", r.base+int64(r.pos))
	}
	if names != nil && !names.add(name) {
		return a, r.broken("a member name comes twice, or there are too many")
	}
	a = r.decide(p, name)
	if !drops {
		r.hold = -1
	}
	c, err := r.next()
	if err != nil {
		return a, err
	}
	if c != ':' {
		return a, r.broken("a colon is expected")
	}
	r.pos++
	if _, err = r.next(); err != nil {
		return a, err
	}
	return a, r.heldBack()
}

// value passes the value at pos, with the changes that its place asks for.
func (r *rewriter) value(p place) error {
	c := r.buf[r.pos]
	switch p {
	case atVersion:
		return r.checkVersion()
	case atURI:
		if c == '"' {
			return r.uri()
		}
	case atMeta:
		r.walk.meta = true
		if c == '{' {
			return r.object(p)
		}
		if len(r.plan.SetMeta) > 0 {
			return r.replaceMeta()
		}
	case atResult, atError:
		if c != '{' {
			return r.broken("result and error are objects")
		}
		return r.object(p)
	case atContents:
		if c == '[' {
			return r.array(atContentsItem)
		}
	case atMessages:
		if c == '[' {
			return r.array(atMessage)
		}
	case atContent:
		if c == '[' {
			return r.array(atContentItem)
		}
		if c == '{' {
			return r.object(atContentItem)
		}
	case elsewhere:
	default:
		if c == '{' {
			return r.object(p)
		}
	}
	return r.skip()
}

// array walks the elements of the array at pos, which all stand at p.
func (r *rewriter) array(p place) error {
	r.pos++
	for first := true; ; first = false {
		c, err := r.next()
		if err != nil {
			return err
		}
		if c == ']' {
			r.pos++
			return nil
		}
		if !first {
			if c != ',' {
				return r.broken("a comma or ] is expected")
			}
			r.pos++
			if _, err = r.next(); err != nil {
				return err
			}
		}
		if err := r.value(p); err != nil {
			return err
		}
	}
}

// requiredRoom is how much of a required value is looked at: the longest that
// is required, with every character escaped.
const requiredRoom = 256

// required fails unless the value at pos is the string want, which is raw and
// quoted, however it is spelled.
func (r *rewriter) required(want []byte) error {
	for len(r.buf)-r.pos < requiredRoom {
		more, err := r.more()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	have := r.buf[r.pos:min(r.pos+requiredRoom, len(r.buf))]
	if bytes.HasPrefix(have, want) {
		return nil
	}
	if have[0] == '"' {
		if end, _, ok := stringEnd(have, 1, false); ok {
			a, errA := String(have[:end])
			b, errB := String(want)
			if errA == nil && errB == nil && a == b {
				return nil
			}
		}
	}
	return r.broken("a member of the result has a value that is not allowed here")
}

// remove lets everything before from go out, and nothing from there to the end
// of the value at pos.
func (r *rewriter) remove(from int) error {
	if err := r.emit(from); err != nil {
		return err
	}
	r.hold = -1
	r.discard = true
	err := r.skip()
	r.discard = false
	r.mark = r.pos
	return err
}

// replace puts with in the place of the value at pos.
func (r *rewriter) replace(with []byte) error {
	if err := r.emit(r.pos); err != nil {
		return err
	}
	if err := r.put(with); err != nil {
		return err
	}
	return r.remove(r.pos)
}

func (r *rewriter) replaceMeta() error {
	for i := range r.plan.SetMeta {
		r.walk.setMeta |= 1 << i
	}
	r.mapped = appendObject(r.mapped[:0], r.plan.SetMeta)
	return r.replace(r.mapped)
}

func (r *rewriter) checkVersion() error {
	if r.buf[r.pos] != '"' {
		return r.skip()
	}
	r.hold = r.pos
	quoted, err := r.quoted()
	if err != nil {
		return err
	}
	r.walk.version = equalString(quoted, "2.0")
	r.hold = -1
	return nil
}

// uri passes the string at pos through MapURI.
func (r *rewriter) uri() error {
	r.hold = r.pos
	quoted, err := r.quoted()
	if err != nil {
		return err
	}
	if r.scratch, err = jsontext.AppendUnquote(r.scratch[:0], quoted); err != nil {
		return fault.Wrap(err, fault.InvalidAnswer, "a URI before byte %d of the message is not a valid string", r.base+int64(r.pos))
	}
	mapped, changed := r.plan.MapURI(r.mapped[:0], string(r.scratch))
	if changed {
		r.mapped = mapped
		if err := r.emit(r.hold); err != nil {
			return err
		}
		r.out, _ = jsontext.AppendQuote(r.out, mapped) // the one error tells of a U+FFFD
		r.mark = r.pos
	}
	r.hold = -1
	return nil
}

// complete appends what the plan adds to the object that ends at pos.
func (r *rewriter) complete(p place, kept bool) error {
	if p != atResult && p != atMeta {
		return nil
	}
	if err := r.emit(r.pos); err != nil {
		return err
	}
	w, plan := &r.walk, r.plan
	if p == atMeta {
		_, err := r.missing(plan.SetMeta, w.setMeta, kept)
		return err
	}
	kept, err := r.missing(plan.Set, w.set, kept)
	if err != nil {
		return err
	}
	there := w.defaults
	for i := range plan.Default {
		if slices.ContainsFunc(plan.Set, func(m Member) bool { return m.Name == plan.Default[i].Name }) {
			there |= 1 << i
		}
	}
	if kept, err = r.missing(plan.Default, there, kept); err != nil {
		return err
	}
	if len(plan.SetMeta) == 0 || w.meta || indexMember(plan.Set, []byte("_meta")) >= 0 {
		return nil
	}
	r.mapped = appendObject(r.mapped[:0], plan.SetMeta)
	_, err = r.missing([]Member{{Name: "_meta", Value: r.mapped}}, 0, kept)
	return err
}

func (r *rewriter) missing(members []Member, done uint64, kept bool) (bool, error) {
	for i := range members {
		if done&(1<<i) != 0 {
			continue
		}
		if kept {
			r.out = append(r.out, ',')
		}
		kept = true
		r.out = AppendString(r.out, members[i].Name)
		r.out = append(r.out, ':')
		if err := r.put(members[i].Value); err != nil {
			return kept, err
		}
	}
	return kept, nil
}
