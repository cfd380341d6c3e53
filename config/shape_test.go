package config

import "testing"

// Patterns are compiled when they are first needed: here, all of them.
func TestEveryPatternCompiles(t *testing.T) {
	n := 0
	var walk func(s *shape)
	walk = func(s *shape) {
		if s.pattern != nil {
			if n++; s.pattern().String() != s.form.pattern {
				t.Errorf("%s became %s", s.form.pattern, s.pattern())
			}
		}
		if s.elem != nil {
			walk(s.elem)
		}
		for _, f := range s.fields {
			walk(f.shape)
		}
	}
	walk(documentShape())
	if n < 10 {
		t.Errorf("only %d patterns", n)
	}
}
