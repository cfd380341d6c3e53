package north

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are made by the test.
type pipes struct{ next chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.next
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// patient returns one end of a connection through a patientListener that is
// swept, and the other end.
func patient(t *testing.T) (mine, peer net.Conn, l *patientListener) {
	t.Helper()
	p := &pipes{next: make(chan net.Conn, 1)}
	l = newPatientListener(p)
	a, b := net.Pipe()
	p.next <- a
	mine, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.sweep(ctx) })
	t.Cleanup(func() {
		_, _ = mine.Close(), b.Close()
		stop()
		wg.Wait()
	})
	return mine, b, l
}

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func TestADeadlinePassesWithinATick(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c, _, _ := patient(t)
			for what, set := range map[string]func(time.Time) error{"read": c.SetReadDeadline, "both": c.SetDeadline} {
				began := time.Now()
				if err := set(began.Add(wait)); err != nil {
					t.Fatal(err)
				}
				_, err := c.Read(make([]byte, 1))
				if took := time.Since(began); !timedOut(err) || took < wait || took > wait+2*deadlineTick {
					t.Errorf("%s deadline of %v: %v after %v", what, wait, err, took)
				}
			}
			began := time.Now()
			if err := c.SetWriteDeadline(began.Add(wait)); err != nil {
				t.Fatal(err)
			}
			_, err := c.Write([]byte("x")) // nobody reads
			if took := time.Since(began); !timedOut(err) || took < wait || took > wait+2*deadlineTick {
				t.Errorf("write deadline of %v: %v after %v", wait, err, took)
			}
		})
	}
}

func TestAMovedDeadlineDoesNotPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer, _ := patient(t)
		for range 20 {
			if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1500 * time.Millisecond)
		}
		go func() { _, _ = peer.Write([]byte("x")) }()
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("read: %v", err)
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Hour)
			_, _ = peer.Write([]byte("x"))
		}()
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("read without a deadline: %v", err)
		}
	})
}

func TestADeadlineInThePastTakesEffectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := patient(t)
		ended := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait() // the read is waiting
		began := time.Now()
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !timedOut(err) || time.Since(began) != 0 {
			t.Errorf("read ended with %v after %v", err, time.Since(began))
		}
	})
}

func TestAPassedDeadlineIsLiftedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer, _ := patient(t)
		for _, lift := range []time.Time{{}, time.Now().Add(time.Hour)} {
			if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if _, err := c.Read(make([]byte, 1)); !timedOut(err) {
				t.Fatalf("read: %v", err)
			}
			if err := c.SetDeadline(lift); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = peer.Write([]byte("x")) }()
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Errorf("read after the deadline was lifted: %v", err)
			}
			go func() { _, _ = io.ReadFull(peer, make([]byte, 1)) }()
			if _, err := c.Write([]byte("y")); err != nil {
				t.Errorf("write after the deadline was lifted: %v", err)
			}
		}
	})
}

func TestClosedConnectionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, l := patient(t)
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		_ = c.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.conns) != 0 {
			t.Errorf("%d connections are still swept", len(l.conns))
		}
	})
}

// With the race detector: deadlines are set from several goroutines while a
// sweep enforces them. At its end a deadline that was lifted is lifted.
func TestDeadlinesAreSetWhileOthersPass(t *testing.T) {
	a, b := net.Pipe()
	l := newPatientListener(&pipes{})
	c := &patientConn{Conn: a, owner: l}
	l.conns[c] = struct{}{}
	t.Cleanup(func() { _, _ = c.Close(), b.Close() })
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := range 2000 {
				if err := c.SetDeadline(time.Now().Add(time.Duration(i%3) * time.Microsecond)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 2000 {
			n := time.Now().UnixNano()
			c.read.enforce(n, c.Conn.SetReadDeadline)
			c.write.enforce(n, c.Conn.SetWriteDeadline)
		}
	})
	wg.Wait()
	if err := c.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !timedOut(err) {
		t.Errorf("read past the deadline: %v", err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = b.Write([]byte("x")) }()
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("read without a deadline: %v", err)
	}
}
