package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// place is one of the many upstreams of one process. The path tells everything
// about it: /modern/text/50/7/mcp is the eighth of those that speak modern,
// answer with text and offer 50 tools.
type place struct {
	era   era
	form  form
	tools int
	n     int
}

func (p place) path() string {
	return fmt.Sprintf("/%s/%s/%d/%d/mcp", p.era, p.form, p.tools, p.n)
}

func parsePlace(path string) (place, bool) {
	part := strings.Split(path, "/")
	if len(part) != 6 || part[0] != "" || part[5] != "mcp" {
		return place{}, false
	}
	p := place{era: era(part[1]), form: form(part[2])}
	var badTools, badN error
	p.tools, badTools = strconv.Atoi(part[3])
	p.n, badN = strconv.Atoi(part[4])
	ok := badTools == nil && badN == nil && p.tools > 0 && p.tools <= 10000 && p.n >= 0 &&
		(p.era == legacy || p.era == modern) && (p.form == text || p.form == rows || p.form == events || p.form == tasks && p.era == modern)
	return p, ok
}

// upstream is the MCP server behind the hop under test. It holds the hop to the
// protocol: a request that a strict server would refuse is refused, so that no
// hop looks cheap for leaving something out.
type upstream struct {
	sessions atomic.Int64 // legacy sessions begun
	made     atomic.Int64 // tasks
	lists    sync.Map     // place without n -> []byte, the members of its tools/list result
}

// idleLimit bounds the wait for the next request of a connection, and the time
// that one answer may take.
const idleLimit = 5 * time.Minute

// serve answers connections of l until ctx ends; then it closes them and
// returns nil once all of them are gone.
func (u *upstream) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		open.Go(func() {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			// How a connection ends is its peer's affair, and its peer reports it.
			_ = u.converse(conn)
		})
	}
}

// converse answers the requests of one connection, one after the other.
func (u *upstream) converse(conn net.Conn) error {
	var (
		br       = bufio.NewReaderSize(conn, 16<<10)
		h        head
		body     []byte
		out      outgoing
		at       place
		atPath   []byte // the path that at was read from
		deadline time.Time
	)
	for {
		// A deadline a request would cost more than the request's parsing.
		if now := time.Now(); deadline.Sub(now) < idleLimit/2 {
			deadline = now.Add(idleLimit)
			if err := conn.SetDeadline(deadline); err != nil {
				return err
			}
		}
		if err := h.read(br); err != nil {
			return err
		}
		var err error
		if body, err = readBody(br, &h, body[:0]); err != nil {
			return err
		}
		verb, path, _ := h.start()
		if !bytes.Equal(path, atPath) {
			var ok bool
			if at, ok = parsePlace(string(path)); !ok {
				return errors.Join(out.status(conn, "404 Not Found"), fmt.Errorf("no upstream at %s", path))
			}
			atPath = append(atPath[:0], path...)
		}
		switch string(verb) {
		case "POST":
			err = u.answer(conn, &out, at, &h, body)
		case "DELETE":
			err = out.status(conn, "200 OK")
		default:
			err = out.status(conn, "405 Method Not Allowed")
		}
		if err != nil {
			return err
		}
	}
}
