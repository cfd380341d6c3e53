package config

import (
	"strconv"
	"strings"
	"time"
)

// Rate is a number of events per time, written as "10/s", "600/m" or "1000/h".
// The zero Rate means that none was written.
type Rate struct {
	Count int
	Per   time.Duration
}

// IsZero tells whether no rate was written.
func (r Rate) IsZero() bool { return r.Count == 0 }

// PerSecond is the rate in events per second.
func (r Rate) PerSecond() float64 {
	if r.IsZero() {
		return 0
	}
	return float64(r.Count) / r.Per.Seconds()
}

// String is the form that a document would hold.
func (r Rate) String() string {
	for _, u := range rateUnits {
		if r.Per == u.per {
			return strconv.Itoa(r.Count) + "/" + u.name
		}
	}
	return "none"
}

var rateUnits = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

func (Rate) form() form {
	return form{what: `a rate such as "10/s", "600/m" or "1000/h"`, pattern: `^[1-9][0-9]{0,8}/[smh]$`}
}

func (r *Rate) set(text string) error {
	count, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(count, 10, 31)
	if err != nil || n == 0 || len(count) > 9 || count[0] == '0' {
		return errForm
	}
	for _, u := range rateUnits {
		if u.name == unit {
			*r = Rate{Count: int(n), Per: u.per}
			return nil
		}
	}
	return errForm
}
