package durable

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// appendNumber writes a JSON number in its canonical form. One without fraction
// and exponent that fits 64 bits is an integer, and stays as it is written; all
// others are doubles in the shortest form that reads back the same, with a
// fraction or an exponent, so that 1 and 1.0 stay different.
func appendNumber(b []byte, number string) ([]byte, error) {
	if !strings.ContainsAny(number, ".eE") && number != "-0" {
		if _, err := strconv.ParseInt(number, 10, 64); err == nil {
			return append(b, number...), nil
		}
		if _, err := strconv.ParseUint(number, 10, 64); err == nil {
			return append(b, number...), nil
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number %.40s is beyond a double", number)
	}
	return appendFloat(b, f), nil
}

// appendFloat writes a double with its point where that is short: between 1e-5
// and 1e16, and in scientific notation beyond.
func appendFloat(b []byte, f float64) []byte {
	if f == 0 {
		if math.Signbit(f) {
			return append(b, "-0.0"...)
		}
		return append(b, "0.0"...)
	}
	s := strconv.FormatFloat(f, 'e', -1, 64) // d.ddde±xx
	if s[0] == '-' {
		b, s = append(b, '-'), s[1:]
	}
	mantissa, exponent, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exponent)
	digits := strings.Replace(mantissa, ".", "", 1)
	point := e + 1 // where the point is, counted from before the first digit
	switch {
	case point > 16 || point <= -5:
		b = append(b, mantissa...)
		b = append(b, 'e')
		return strconv.AppendInt(b, int64(e), 10)
	case point <= 0:
		b = append(b, "0."...)
		b = append(b, strings.Repeat("0", -point)...)
		return append(b, digits...)
	case point >= len(digits):
		b = append(b, digits...)
		b = append(b, strings.Repeat("0", point-len(digits))...)
		return append(b, ".0"...)
	default:
		b = append(b, digits[:point]...)
		b = append(b, '.')
		return append(b, digits[point:]...)
	}
}
