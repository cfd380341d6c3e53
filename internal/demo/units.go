package demo

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// unit is a unit of measure: base = value*factor + offset, in the base unit of
// what it measures.
type unit struct {
	measures       string
	factor, offset float64
}

var units = map[string]unit{
	"mm": {"length", 0.001, 0}, "cm": {"length", 0.01, 0}, "m": {"length", 1, 0}, "km": {"length", 1000, 0},
	"in": {"length", 0.0254, 0}, "ft": {"length", 0.3048, 0}, "mi": {"length", 1609.344, 0},
	"g": {"mass", 0.001, 0}, "kg": {"mass", 1, 0}, "oz": {"mass", 0.028349523125, 0}, "lb": {"mass", 0.45359237, 0},
	"K": {"temperature", 1, 0}, "C": {"temperature", 1, 273.15}, "F": {"temperature", 5.0 / 9, 273.15 - 32*5.0/9},
}

// convert turns a value of one unit into another of the same measure.
func convert(value float64, from, to string) (float64, error) {
	a, ok := units[from]
	if !ok {
		return 0, noUnit(from)
	}
	b, ok := units[to]
	if !ok {
		return 0, noUnit(to)
	}
	if a.measures != b.measures {
		return 0, fmt.Errorf("%s is a %s and %s a %s", from, a.measures, to, b.measures)
	}
	got := (value*a.factor + a.offset - b.offset) / b.factor
	if math.IsInf(got, 0) {
		return 0, fmt.Errorf("%g %s is beyond what can be counted in %s", value, from, to)
	}
	// Twelve digits are more than any ruler has, and hide binary fractions.
	return strconv.ParseFloat(strconv.FormatFloat(got, 'g', 12, 64), 64)
}

func noUnit(name string) error {
	var known []string
	for n := range units {
		known = append(known, n)
	}
	sort.Strings(known)
	return fmt.Errorf("no unit %q; there are %s", name, strings.Join(known, ", "))
}
