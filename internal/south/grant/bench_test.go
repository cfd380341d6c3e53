package grant

import (
	"fmt"
	"testing"
	"time"
)

func cached(tb testing.TB) (*Exchange, *ClientCredentials, *Subject) {
	tb.Helper()
	f := &fake{life: 3600}
	o := Options{Upstream: "github", ClientID: "c"}
	x, c := f.exchange(tb, o), f.credentials(tb, o)
	for n := range 1000 {
		get(tb, x, subject(fmt.Sprint(n)))
	}
	if _, err := c.Token(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return x, c, subject("7")
}

func BenchmarkExchangeCached(b *testing.B) {
	x, _, s := cached(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Token(ctx, s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExchangeCachedFixedTime is the same without reading the time, which
// is most of it on some machines.
func BenchmarkExchangeCachedFixedTime(b *testing.B) {
	x, _, s := cached(b)
	ctx, now := b.Context(), time.Now()
	x.k.now = func() time.Time { return now }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Token(ctx, s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExchangeCachedParallel(b *testing.B) {
	x, _, _ := cached(b)
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if _, err := x.Token(ctx, subjects[n%len(subjects)]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

var subjects = func() (all []*Subject) {
	for n := range 1000 {
		all = append(all, subject(fmt.Sprint(n)))
	}
	return all
}()

func BenchmarkCredentialsCached(b *testing.B) {
	_, c, _ := cached(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Token(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func TestACachedTokenAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	x, c, s := cached(t)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := x.Token(ctx, s); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("exchange: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := c.Token(ctx); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("credentials: %v allocations", n)
	}
}
