package fault

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAComplaintIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var s Seldom
		for range 1000 {
			s.Say(log, slog.LevelWarn, "one kind", "upstream", "u")
		}
		s.Say(log, slog.LevelWarn, "another kind")
		if lines := strings.Count(out.String(), "\n"); lines != 2 {
			t.Errorf("%d lines:\n%s", lines, out.String())
		}
		out.Reset()
		time.Sleep(saidEvery - time.Second)
		s.Say(log, slog.LevelWarn, "one kind")
		if out.Len() > 0 {
			t.Errorf("within the minute: %s", out.String())
		}
		time.Sleep(2 * time.Second)
		s.Say(log, slog.LevelWarn, "one kind")
		s.Say(log, slog.LevelWarn, "another kind")
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "held_back=1000") || strings.Count(got, "held_back") != 1 {
			t.Errorf("after it: %s", got)
		}
	})
}
