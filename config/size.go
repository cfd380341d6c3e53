package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as "4MiB", "64KiB", "1GiB" or a plain number.
type Size int64

// Bytes returns the number of bytes.
func (s Size) Bytes() int64 { return int64(s) }

// String is the form that a document would hold, in the largest unit that is exact.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func (Size) form() form {
	return form{what: `a size such as "64KiB", "4MiB" or a number of bytes`, pattern: `^[0-9]+(KiB|MiB|GiB|B)?$`, number: true}
}

func (s *Size) set(text string) error {
	digits, unit := strings.TrimSuffix(text, "B"), int64(1)
	for _, u := range sizeUnits {
		if rest, found := strings.CutSuffix(text, u.name); found {
			digits, unit = rest, u.bytes
			break
		}
	}
	if strings.ContainsAny(digits, "+-_") {
		return errForm
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64/unit {
		return errors.New("is too large")
	}
	if err != nil {
		return errForm
	}
	*s = Size(n * unit)
	return nil
}
