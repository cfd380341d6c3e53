package north

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A call that has nothing to say is kept alive where the client takes streams, and
// its answer, or its error, is then an event.
func TestALongCallIsKeptAlive(t *testing.T) {
	end := make(chan error)
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		x.StayAlive()
		defer x.Rest()
		if err := <-end; err != nil {
			return err
		}
		x.Framed()
		time.Sleep(60 * time.Millisecond) // the answer is at hand: nothing may be written
		return x.Result([]byte(`{}`))
	}}, func(o *Options) { o.KeepAlive = 20 * time.Millisecond })
	for name, accept := range map[string]string{"both": "application/json, text/event-stream", "streams": "text/event-stream", "json": "application/json"} {
		for _, err := range []error{nil, errors.New("lost")} {
			go func() {
				time.Sleep(110 * time.Millisecond)
				end <- err
			}()
			_, body := exchangeRaw(t, f, accept)
			comments := strings.Count(body, ": waiting")
			if streams := name != "json"; streams != (comments >= 2) || streams != strings.Contains(body, "data: {") {
				t.Errorf("%s, %v: %d comments in %q", name, err, comments, body)
			}
			if want := map[bool]string{true: `"result":{}`, false: `"error":{`}[err == nil]; strings.Count(body, want) != 1 || !strings.HasSuffix(body, "0\r\n\r\n") && name != "json" {
				t.Errorf("%s, %v: %q", name, err, body)
			}
		}
	}
}
