package south

import (
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breaker opens after consecutive transport faults and gates every call and
// connect while open. An upstream's own errors never count (DESIGN section 11).
type breaker struct {
	b        atomic.Pointer[gobreaker.TwoStepCircuitBreaker[struct{}]]
	settings gobreaker.Settings
}

func newBreaker(name string, failures uint32, open time.Duration) *breaker {
	b := &breaker{settings: gobreaker.Settings{
		Name:        name,
		MaxRequests: 1,
		Timeout:     open,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
	}}
	b.reset()
	return b
}

// allow asks for one call; done takes nil for success, or the transport fault.
func (b *breaker) allow() (done func(error), err error) { return b.b.Load().Allow() }

// reset closes the breaker: the upstream was seen alive.
func (b *breaker) reset() {
	b.b.Store(gobreaker.NewTwoStepCircuitBreaker[struct{}](b.settings))
}

func (b *breaker) open() bool { return b.b.Load().State() == gobreaker.StateOpen }

func (b *breaker) state() string { return b.b.Load().State().String() }
