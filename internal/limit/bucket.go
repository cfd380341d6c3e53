package limit

import (
	"time"

	"golang.org/x/time/rate"
)

// Rate is a number of events in a time. The zero Rate is no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// None reports whether there is no limit.
func (r Rate) None() bool { return r.Count <= 0 || r.Per <= 0 }

// limit is the rate in events per second.
func (r Rate) limit() rate.Limit { return rate.Limit(float64(r.Count) / r.Per.Seconds()) }

// burst is how many events may come at once where nothing else is said: a tenth
// of a minute's worth, and one at least.
func (r Rate) burst() int {
	return max(1, int(float64(r.limit())*time.Minute.Seconds()/10))
}

// Bucket limits the events of one kind, whoever causes them. It is safe for
// concurrent use; a nil Bucket takes everything.
type Bucket struct{ l *rate.Limiter }

// NewBucket returns a full bucket, or nil where the rate is no limit. burst is how
// many events may come at once; 0: a tenth of a minute's worth, and one at least.
func NewBucket(r Rate, burst int) *Bucket {
	if r.None() {
		return nil
	}
	if burst <= 0 {
		burst = r.burst()
	}
	return &Bucket{rate.NewLimiter(r.limit(), burst)}
}

// Take takes one event at now. Where there is none left it takes nothing and
// returns after which time there is; that is never zero.
func (b *Bucket) Take(now time.Time) (wait time.Duration, ok bool) {
	if b == nil || b.l.AllowN(now, 1) {
		return 0, true
	}
	return b.wait(now), false
}

// wait is the time until one event is there, if nobody else takes it.
func (b *Bucket) wait(now time.Time) time.Duration {
	lack := 1 - b.l.TokensAt(now)
	return max(time.Millisecond, time.Duration(lack/float64(b.l.Limit())*float64(time.Second)))
}

// giveBack returns an event that was taken for nothing.
func (b *Bucket) giveBack(now time.Time) {
	if b != nil {
		b.l.AllowN(now, -1)
	}
}

// full reports whether the bucket would behave like a new one.
func (b *Bucket) full(now time.Time) bool { return b.l.TokensAt(now) >= float64(b.l.Burst()) }
