package mcp

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// NeedsWhole reports whether a result for a client of that revision has to be
// held whole, however large: 2025-03-26 needs changes inside every content block
// (checklist 6.5), while for the others only small members matter.
func NeedsWhole(rev Revision) bool { return rev == V20250326 }

// ProjectResult appends the result of a request to dst, its content shaped for a
// client of revision rev (checklist 6.5). It is for tools/call, prompts/get and
// resources/read; the result of any other method is appended as it is, since
// lists are projected item by item. Members of the envelope (resultType and the
// like) are not its business.
//
// Bytes that are kept stay as they are. The error says that result is not the
// JSON its method promises; dst is then returned as it came.
func ProjectResult(method string, rev Revision, dst, result []byte) ([]byte, error) {
	if rev.Era() != Legacy {
		return append(dst, result...), nil
	}
	var out []byte
	var err error
	switch method {
	case ToolsCall:
		out, err = projectToolResult(rev, dst, result)
	case PromptsGet:
		out, err = projectMembers(rev, dst, result, "messages", projectMessage)
	case ResourcesRead:
		out, err = projectMembers(rev, dst, result, "contents", projectContents)
	default:
		return append(dst, result...), nil
	}
	if err != nil {
		return dst, fmt.Errorf("result of %s: %w", method, err)
	}
	return out, nil
}

// projectToolResult drops structured content that the revision does not know:
// any for 2025-03-26, else what is not an object. A reader without it must find
// it as text, so a text block is added where there is none.
func projectToolResult(rev Revision, dst, result []byte) ([]byte, error) {
	var mbuf [16]member
	var ebuf [16]edit
	ms, err := members(result, mbuf[:0])
	if err != nil {
		return nil, err
	}
	edits, content, structured := append(ebuf[:0], make([]edit, len(ms))...), -1, -1
	for i := range ms {
		switch string(ms[i].name) {
		case "content":
			content = i
		case "structuredContent":
			structured = i
		}
	}
	var text []byte // the block that stands for what is dropped
	if structured >= 0 {
		raw := ms[structured].raw(result)
		if rev == V20250326 || !isObject(raw) {
			edits[structured].drop = true
			if text, err = textBlock(raw); err != nil {
				return nil, err
			}
		}
	}
	var add []byte
	if content >= 0 {
		if edits[content].value, err = projectContent(rev, ms[content].raw(result), text); err != nil {
			return nil, err
		}
	} else if text != nil {
		add = append(append([]byte(`"content":[`), text...), ']')
	}
	return splice(dst, result, ms, edits, add), nil
}

// projectContent returns the blocks of a tool result, with text appended when it
// is not nil and no block is text; nil means that nothing changes.
func projectContent(rev Revision, content, text []byte) ([]byte, error) {
	if isNull(content) && text != nil {
		return append(append([]byte{'['}, text...), ']'), nil
	}
	if text == nil && (rev >= V20251125 || rev == V20250618 && !bytes.Contains(content, []byte("resource_link"))) {
		return nil, nil // only a link has something that 2025-06-18 lacks
	}
	hasText, n := false, 0
	out, changed, err := eachElement(content, func(dst, block []byte) []byte {
		n++
		hasText = hasText || string(find(block, "type")) == `"text"`
		return projectBlock(rev, dst, block)
	})
	if err != nil {
		return nil, err
	}
	if text != nil && !hasText {
		end := bytes.LastIndexByte(out, ']')
		grown := append([]byte(nil), out[:end]...)
		if n > 0 {
			grown = append(grown, ',')
		}
		grown = append(grown, text...)
		return append(grown, out[end:]...), nil
	}
	if !changed {
		return nil, nil
	}
	return out, nil
}

// projectBlock appends one content block as the revision knows it.
func projectBlock(rev Revision, dst, block []byte) []byte {
	kind := string(find(block, "type"))
	switch {
	case kind == `"resource_link"` && rev <= V20250326:
		return linkAsText(dst, block)
	case kind == `"resource_link"` && rev <= V20250618:
		return without(dst, block, func(name []byte) bool { return string(name) == "icons" })
	case rev > V20250326:
		return append(dst, block...)
	case kind == `"resource"`:
		// The embedded resource has a _meta of its own.
		if at, ok := locate(block, "resource"); ok {
			inner := without(nil, block[at.start:at.end], isMeta)
			block = bytes.Join([][]byte{block[:at.start], inner, block[at.end:]}, nil)
		}
	}
	return without(dst, block, isMeta)
}

// linkAsText turns a resource link into the text of its URI, which is all that
// an older reader can use (checklist 6.5).
func linkAsText(dst, block []byte) []byte {
	uri := find(block, "uri")
	if len(uri) == 0 || uri[0] != '"' {
		return append(dst, block...)
	}
	dst = append(dst, `{"type":"text","text":`...)
	dst = append(dst, uri...)
	if a := find(block, "annotations"); isObject(a) {
		dst = append(dst, `,"annotations":`...)
		dst = append(dst, a...)
	}
	return append(dst, '}')
}

// projectMembers appends result with every element of the named array projected.
func projectMembers(rev Revision, dst, result []byte, name string,
	project func(rev Revision, dst, element []byte) []byte,
) ([]byte, error) {
	var mbuf [8]member
	ms, err := members(result, mbuf[:0])
	if err != nil {
		return nil, err
	}
	if rev >= V20251125 {
		return append(dst, result...), nil
	}
	edits := make([]edit, len(ms))
	for i := range ms {
		raw := ms[i].raw(result)
		if string(ms[i].name) != name || !isArray(raw) {
			continue
		}
		out, changed, err := eachElement(raw, func(dst, e []byte) []byte { return project(rev, dst, e) })
		if err != nil {
			return nil, err
		}
		if changed {
			edits[i].value = out
		}
	}
	return splice(dst, result, ms, edits, nil), nil
}

// projectMessage projects the content of one prompt message.
func projectMessage(rev Revision, dst, message []byte) []byte {
	at, ok := locate(message, "content")
	if !ok {
		return append(dst, message...)
	}
	dst = append(dst, message[:at.start]...)
	dst = projectBlock(rev, dst, message[at.start:at.end])
	return append(dst, message[at.end:]...)
}

// projectContents projects one element of what resources/read returned.
func projectContents(rev Revision, dst, contents []byte) []byte {
	if rev > V20250326 {
		return append(dst, contents...)
	}
	return without(dst, contents, isMeta)
}

func isMeta(name []byte) bool { return string(name) == "_meta" }

// textBlock is a content block whose text is the raw JSON.
func textBlock(raw []byte) ([]byte, error) {
	out, err := jsontext.AppendQuote([]byte(`{"type":"text","text":`), raw)
	if err != nil {
		return nil, fmt.Errorf("%w: structuredContent: %w", errShape, err)
	}
	return append(out, '}'), nil
}

// eachElement returns the array src with every element replaced by what project
// appends for it, and whether any differs.
func eachElement(src []byte, project func(dst, element []byte) []byte) (out []byte, changed bool, err error) {
	var buf [16]span
	es, err := elements(src, buf[:0])
	if err != nil {
		return nil, false, err
	}
	out = make([]byte, 0, len(src))
	at := 0
	for _, e := range es {
		out = append(out, src[at:e.start]...)
		from := len(out)
		out = project(out, src[e.start:e.end])
		changed = changed || !bytes.Equal(out[from:], src[e.start:e.end])
		at = e.end
	}
	return append(out, src[at:]...), changed, nil
}
