package penstock

import (
	"time"

	"github.com/penstock-mcp/penstock/internal/hook"
)

// HookEvent is a moment at which a hook is asked.
type HookEvent = hook.Event

// The moments at which hooks are asked: before and after tools/call, prompts/get
// and resources/read.
const (
	ToolBefore     = hook.ToolBefore
	ToolAfter      = hook.ToolAfter
	PromptBefore   = hook.PromptBefore
	PromptAfter    = hook.PromptAfter
	ResourceBefore = hook.ResourceBefore
	ResourceAfter  = hook.ResourceAfter
)

// HookCall is what a hook is asked about.
type HookCall = hook.Call

// HookVerdict is what a hook decides. The zero value lets the call pass as it is.
type HookVerdict = hook.Verdict

// HookFunc is a hook in Go. It may run many times at once, and must return when
// its context ends.
type HookFunc = hook.Func

// Hook is a hook of the embedding program, asked after those of the document, in
// the order of the options.
type Hook struct {
	ID           string // names it in errors, logs and metrics; unlike any id of the document
	Func         HookFunc
	Events       []HookEvent
	Timeout      time.Duration // 0: 500 ms
	AllowOnError bool          // what its failure means; false: the call is refused
	MaxBytes     int64         // results larger than this it is not shown; 0: 1 MiB
}

// WithHook has f asked about calls and results. It stays over reloads.
func WithHook(h Hook) Option {
	return func(o *options) {
		o.hooks = append(o.hooks, hook.Hook{
			ID: h.ID, Func: h.Func, Events: h.Events, Timeout: h.Timeout, AllowOnError: h.AllowOnError, MaxBytes: h.MaxBytes,
		})
	}
}
