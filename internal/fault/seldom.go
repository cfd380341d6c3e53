package fault

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// saidEvery is how often one kind of complaint is logged at most.
const saidEvery = time.Minute

// Seldom logs what a peer does wrong and harms nobody with, each kind at most
// once a minute: whoever floods must not flood the log. The zero value is ready;
// it is safe for concurrent use.
type Seldom struct {
	mu   sync.Mutex // guards said
	said map[string]saying
}

// saying is one kind of complaint.
type saying struct {
	at    time.Time
	since int // how often it was held back
}

// Say logs what, unless that was logged within the last minute. The kinds are
// constants of the program, so there are few; what changes from time to time
// belongs into args. How often it was held back is told with the next line.
func (s *Seldom) Say(log *slog.Logger, level slog.Level, what string, args ...any) {
	now := time.Now()
	s.mu.Lock()
	last, known := s.said[what]
	if known && now.Sub(last.at) < saidEvery {
		last.since++
		s.said[what] = last
		s.mu.Unlock()
		return
	}
	if s.said == nil {
		s.said = map[string]saying{}
	}
	s.said[what] = saying{at: now}
	s.mu.Unlock()
	if last.since > 0 {
		args = append(args[:len(args):len(args)], "held_back", last.since)
	}
	log.Log(context.Background(), level, what, args...)
}
