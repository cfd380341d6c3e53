package durablegateway_test

import (
	"testing"
	"time"
)

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("within %s it did not happen that %s", within, what)
		}
	}
}
