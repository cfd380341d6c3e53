package task

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Detailed is a Task of 2025-11-25, a raw object, as the extension has it: with the
// durations under its names, without what ties a message to the task, and with a
// status in the place of its own unless that is "". more goes behind its members,
// which are as they were (checklist 8.5).
func Detailed(task []byte, status string, more ...wire.Member) ([]byte, error) {
	f := flat{status: status, out: []byte{'{'}, taken: map[string]bool{}}
	if err := f.task(task); err != nil {
		return nil, err
	}
	return f.end(more...), nil
}

// Created is a CreateTaskResult of 2025-11-25, a raw object, as the extension has
// it. What it says beside the task stays, where the extension has no use for the
// name.
func Created(result []byte) ([]byte, error) {
	f := flat{out: []byte{'{'}, taken: map[string]bool{}}
	f.put("resultType", []byte(`"task"`))
	var task, meta []byte
	type member struct {
		name  string
		value []byte
	}
	var rest []member
	if err := wire.Members(result, func(n, v []byte) bool {
		switch name := nameOf(n); name {
		case "task":
			task = v
		case "_meta":
			meta = v
		default:
			rest = append(rest, member{name, v})
		}
		return true
	}); err != nil {
		return nil, err
	}
	if err := f.task(task); err != nil {
		return nil, err
	}
	for _, m := range rest {
		if !ours(m.name) && !f.taken[m.name] {
			f.put(m.name, m.value)
		}
	}
	if f.meta == nil {
		f.meta = unrelated(meta)
	}
	return f.end(), nil
}

// Completed is the result of a tool, a raw object, as a task of the extension has it
// inlined.
func Completed(result []byte) ([]byte, error) {
	out := []byte(`{"resultType":"complete"`)
	err := wire.Members(result, func(n, v []byte) bool {
		switch nameOf(n) {
		case "resultType", "requestState", "inputRequests":
			return true
		case "_meta":
			if v = unrelated(v); v == nil {
				return true
			}
		}
		out = append(append(append(append(out, ',', '"'), n...), '"', ':'), v...)
		return true
	})
	return append(out, '}'), err
}

// flat builds one task of the extension.
type flat struct {
	status string
	out    []byte
	taken  map[string]bool
	meta   []byte
}

func (f *flat) put(name string, value []byte) {
	f.taken[name] = true
	if len(f.out) > 1 {
		f.out = append(f.out, ',')
	}
	f.out = append(append(wire.AppendString(f.out, name), ':'), value...)
}

func (f *flat) task(raw []byte) error {
	return wire.Members(raw, func(n, v []byte) bool {
		switch name := nameOf(n); name {
		case "ttl":
			f.put("ttlMs", millis(v, []byte("null")))
		case "pollInterval":
			if ms := millis(v, nil); ms != nil {
				f.put("pollIntervalMs", ms)
			}
		case "status":
			if f.status != "" {
				v = wire.AppendString(nil, f.status)
			}
			f.put(name, v)
		case "_meta":
			f.meta = unrelated(v)
		default:
			if !ours(name) {
				f.put(name, v)
			}
		}
		return true
	})
}

func (f *flat) end(more ...wire.Member) []byte {
	if !f.taken["ttlMs"] {
		f.put("ttlMs", []byte("null"))
	}
	for _, m := range more {
		f.put(m.Name, m.Value)
	}
	if f.meta != nil {
		f.put("_meta", f.meta)
	}
	return append(f.out, '}')
}

// ours reports whether a name means something in the extension, and nothing in
// 2025-11-25.
func ours(name string) bool {
	switch name {
	case "resultType", "ttlMs", "pollIntervalMs", "inputRequests", "inputResponses", "requestState", "result", "error", "task":
		return true
	}
	return false
}

// nameOf is what a raw name means; one that means nothing is nobody's.
func nameOf(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	s, err := wire.String(append(append([]byte{'"'}, raw...), '"'))
	if err != nil {
		return ""
	}
	return s
}

// unrelated is a raw _meta without what ties a message to a task; nil: nothing is
// left of it.
func unrelated(meta []byte) []byte {
	out := []byte{'{'}
	err := wire.Members(meta, func(n, v []byte) bool {
		if nameOf(n) == mcp.MetaRelatedTask {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), n...), '"', ':'), v...)
		return true
	})
	if err != nil || len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

// maxMillis is the longest duration that every reader of JSON takes for what it is.
const maxMillis = 1<<53 - 1

// millis is a raw number of milliseconds as the extension has them: whole, and none
// below nothing. An integer stays as it is written. What is no number is absent.
func millis(raw, absent []byte) []byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return absent
	}
	if raw[0] == '-' {
		return []byte("0")
	}
	if !bytes.ContainsAny(raw, ".eE") {
		return raw
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return absent
	}
	return strconv.AppendInt(nil, int64(min(n, maxMillis)), 10)
}
