package hook

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"
)

// Hook is one hook of the document, or one function of the embedding surface.
type Hook struct {
	ID           string // unique within its Set
	URL          string // http or https; a user and a password in it become basic authentication
	Func         Func   // instead of URL
	Events       []Event
	Timeout      time.Duration // over everything; 0: 500 ms
	AllowOnError bool          // what a failure means
	MaxBytes     int64         // of arguments and of a result, each; more is not shown, and on_error decides; 0: 1 MiB
}

// Options are what all hooks of a Set share. All of it may be absent.
type Options struct {
	// Log is where failures go, each kind of each hook once a minute.
	Log *slog.Logger

	// Outcome is called once for every hook that was asked, or that on_error
	// decided for, and tells how long that took. The outcome is one of allow,
	// deny, rewrite, error_allowed, error_denied, too_large_allowed and
	// too_large_denied. It is not called for a caller that went away. It must
	// not block, and is called from many goroutines at once.
	Outcome func(hook string, e Event, outcome string, d time.Duration)
}

// What the document's defaults are, for those who embed without one.
const (
	defaultTimeout  = 500 * time.Millisecond
	defaultMaxBytes = 1 << 20
)

// answerExtra is how much an answer may be longer than max_bytes: room for its
// other members.
const answerExtra = 64 << 10

// check reports what is wrong with the hook. It does not tell the URL, which
// may hold a password.
func (h *Hook) check() error {
	switch {
	case h.ID == "":
		return errors.New("a hook has no id")
	case (h.URL == "") == (h.Func == nil):
		return fmt.Errorf("hook %q: either a URL or a function is needed", h.ID)
	case len(h.Events) == 0:
		return fmt.Errorf("hook %q: no events", h.ID)
	case h.Timeout < 0:
		return fmt.Errorf("hook %q: negative timeout", h.ID)
	case h.MaxBytes < 0:
		return fmt.Errorf("hook %q: negative max_bytes", h.ID)
	}
	for _, e := range h.Events {
		if e >= numEvents {
			return fmt.Errorf("hook %q: event %d is unknown", h.ID, e)
		}
	}
	return nil
}

// target parses the hook's URL.
func (h *Hook) target() (*url.URL, error) {
	u, err := url.Parse(h.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("hook %q: the URL must be http or https and have a host", h.ID)
	}
	return u, nil
}
