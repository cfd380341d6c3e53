package config

import (
	"errors"
	"regexp"
	"time"
)

// Duration is a positive span of time, written as "500ms", "60s", "10m" or "1h30m".
type Duration time.Duration

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the form that a document would hold.
func (d Duration) String() string { return time.Duration(d).String() }

var durationForm = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`)

func (Duration) form() form {
	return form{what: `a duration such as "500ms", "60s" or "10m"`, pattern: durationForm.String()}
}

func (d *Duration) set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || !durationForm.MatchString(text) {
		return errForm
	}
	if v <= 0 {
		return errors.New("must be more than zero")
	}
	*d = Duration(v)
	return nil
}
