package south

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// said is what a sink was told, and with it whether anything was missed.
type said struct {
	mu       sync.Mutex // held while the sink is called; guards what follows
	muted    bool       // nothing is told any more
	honoured mcp.Filter
	turn     uint64 // that honoured is about; 0: nothing was told yet
	heard    bool   // the way was there since something is wanted
	gap      bool   // and was lost since
	warned   bool   // the log knows that it is lost

	complained atomic.Int64 // when a log line last told of what is not taken, Unix nanoseconds
}

// tell calls f, one at a time, until the watch is closed.
func (w *Watch) tell(f func(s *said)) {
	w.said.mu.Lock()
	defer w.said.mu.Unlock()
	if !w.said.muted {
		f(&w.said)
	}
}

// mute returns when the sink is called no more.
func (w *Watch) mute() {
	w.said.mu.Lock()
	defer w.said.mu.Unlock()
	w.said.muted = true
}

// settle tells what is honoured of a turn. That it is nothing is told once.
func (w *Watch) settle(turn uint64, f mcp.Filter) {
	w.tell(func(s *said) {
		if turn == s.turn && f.Empty() && s.honoured.Empty() {
			return
		}
		s.turn, s.honoured = turn, f
		w.sink.Honoured(w.meant(turn, f), f)
	})
}

// meant is what was wanted at a turn: of one that is over, what came of it.
func (w *Watch) meant(turn uint64, f mcp.Filter) mcp.Filter {
	if want, now := w.wanted(); now == turn {
		return want
	}
	return f
}

// opened is settle for a way that is there now, for the first time or again.
func (w *Watch) opened(turn uint64, f mcp.Filter) {
	w.tell(func(s *said) {
		s.turn, s.honoured = turn, f
		w.sink.Honoured(w.meant(turn, f), f)
		if s.warned {
			w.at.o.Log.Info("upstream's changes are heard again", "upstream", w.at.o.Key)
		}
		again := s.gap
		s.heard, s.gap, s.warned = true, false, false
		if again {
			w.sink.Reopened()
		}
	})
}

// missed notes that from now on something may go by unheard. The log is told
// once, and only of what an operator should know.
func (w *Watch) missed(err error, warn bool) {
	w.tell(func(s *said) {
		s.gap = s.heard
		if warn && !s.warned {
			s.warned = true
			w.at.o.Log.Warn("upstream's changes are not heard for now", "upstream", w.at.o.Key, "error", err)
		}
	})
}

// rested notes that nothing is wanted any more.
func (w *Watch) rested(turn uint64) {
	w.settle(turn, mcp.Filter{})
	w.tell(func(s *said) { s.heard, s.gap, s.warned = false, false, false })
}

// notice passes a notification on, if it is of what is wanted. Other kinds pass
// where the upstream may send them.
func (w *Watch) notice(s *wire.Answer, others bool) {
	method, err := wire.String(s.Method.Of(s.Raw))
	if err != nil {
		return
	}
	want, _ := w.wanted()
	if kind, ok := mcp.ParseChanged(method); ok {
		if want.List(kind) {
			w.tell(func(*said) { w.sink.Changed(kind) })
		}
		return
	}
	switch method {
	case mcp.ResourceUpdated:
		params := s.Params.Of(s.Raw)
		if uri, err := wire.String(memberOf(params, "uri")); err == nil && covers(want, uri) {
			w.tell(func(*said) { w.sink.Updated(uri, params) })
		}
	case mcp.TasksChanged:
		w.noticeTask(want, s.Params.Of(s.Raw))
	case mcp.Acknowledged, mcp.Cancelled:
		// These are about requests of ours or theirs, not about what is offered.
	default:
		if others {
			w.tell(func(*said) { w.sink.Other(method, s.Raw) })
		}
	}
}

// errOtherTask is a notification of a task that nobody listens for here.
var errOtherTask = errors.New("nobody listens for that task at this upstream")

// noticeTask passes on what is said of a task that is wanted, and of no other: an
// upstream has nothing to say of another's tasks.
func (w *Watch) noticeTask(want mcp.Filter, params []byte) {
	sink, ok := w.sink.(TaskSink)
	id, err := wire.String(memberOf(params, "taskId"))
	if err == nil && ok && want.HasTask(id) {
		w.tell(func(*said) { sink.Task(id, params) })
		return
	}
	w.complain("upstream tells of a task that it was not asked about", errors.Join(err, errOtherTask))
}

// complaintEvery is how often a log line tells of messages that are not taken.
const complaintEvery = time.Minute

// complain logs what an upstream does wrong, at most once a minute.
func (w *Watch) complain(what string, err error) {
	now, last := time.Now().UnixNano(), w.said.complained.Load()
	if (last == 0 || now-last >= int64(complaintEvery)) && w.said.complained.CompareAndSwap(last, now) {
		w.at.o.Log.Warn(what, "upstream", w.at.o.Key, "error", err)
	}
}

// covers reports whether a resource is wanted, or one that it is below of by its
// path (checklist 6.4).
func covers(f mcp.Filter, uri string) bool {
	if len(f.URIs) == 0 {
		return false
	}
	if f.HasURI(uri) {
		return true
	}
	for i := range len(uri) {
		if uri[i] == '/' && (f.HasURI(uri[:i]) || f.HasURI(uri[:i+1])) {
			return true
		}
	}
	return false
}

// memberOf returns the raw value of a member, or nil where there is none or obj
// is no object.
func memberOf(obj []byte, name string) (value []byte) {
	if len(obj) == 0 {
		return nil
	}
	if err := wire.Members(obj, func(n, v []byte) bool {
		if string(n) == name || (bytes.IndexByte(n, '\\') >= 0 && text([]byte(`"`+string(n)+`"`)) == name) {
			value = v
			return false
		}
		return true
	}); err != nil {
		return nil
	}
	return value
}

// offered is what an upstream's capabilities say that it tells of; URIs are
// asked for one by one.
func offered(caps []byte) (lists mcp.Filter, uris bool) {
	on := func(kind, member string) bool {
		return string(memberOf(memberOf(caps, kind), member)) == "true"
	}
	return mcp.Filter{
		Tools:     on("tools", "listChanged"),
		Prompts:   on("prompts", "listChanged"),
		Resources: on("resources", "listChanged"),
	}, on("resources", "subscribe")
}

// within is what of f is offered.
func within(f mcp.Filter, caps []byte) mcp.Filter {
	lists, uris := offered(caps)
	f.Tools, f.Prompts, f.Resources = f.Tools && lists.Tools, f.Prompts && lists.Prompts, f.Resources && lists.Resources
	if !uris {
		f.URIs = nil
	}
	if memberOf(memberOf(caps, "extensions"), mcp.ExtensionTasks) == nil {
		f.TaskIDs = nil
	}
	return f
}

// meet is what is in both filters.
func meet(f, g mcp.Filter) mcp.Filter {
	m := mcp.Filter{Tools: f.Tools && g.Tools, Prompts: f.Prompts && g.Prompts, Resources: f.Resources && g.Resources}
	for _, uri := range f.URIs {
		if g.HasURI(uri) {
			m.URIs = append(m.URIs, uri)
		}
	}
	for _, id := range f.TaskIDs {
		if g.HasTask(id) {
			m.TaskIDs = append(m.TaskIDs, id)
		}
	}
	return m
}
