package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// maxTTL bounds how long an upstream's ttlMs is believed.
const maxTTL = 24 * time.Hour

// snapshot is what one walk of one upstream's list brought. Immutable.
type snapshot struct {
	set    *itemSet
	ttl    time.Duration
	legacy bool
	public bool // every page said so
	absent bool
	short  string // why the walk ended before the list did; "": it is whole
}

// itemSet is the items of a list; equal lists share one. Immutable.
type itemSet struct {
	items  []*item
	digest [sha256.Size]byte // of the items' bytes, in order, and of how they were read
	bytes  int64
}

var emptySet = &itemSet{}

// walk asks an upstream for its whole list, within the bounds of DESIGN
// section 6. With an error the snapshot holds what had come until then, or is nil.
func (s *Server) walk(ctx context.Context, upstream string, scope Scope, kind mcp.Kind) (*snapshot, error) {
	var (
		pages  [][]byte // raw arrays
		snap   = &snapshot{ttl: maxTTL, public: true}
		how    reading
		count  = 0
		size   = int64(0)
		seen   = map[string]bool{}
		cursor []byte
	)
	finish := func() *snapshot {
		snap.set = s.read(upstream, kind, pages, how)
		return snap
	}
	for n := 1; ; n++ {
		page, err := s.fetch.Page(ctx, upstream, scope, kind, cursor)
		switch {
		case errors.Is(err, ErrAbsent) && n == 1:
			return &snapshot{set: emptySet, absent: true, public: !page.Private, ttl: s.o.LegacyTTL}, nil
		case err != nil && n == 1:
			return nil, err
		case err != nil:
			snap.short = fmt.Sprintf("only the first %d items were listed: %s", count, reason(err, s.o.ListTimeout))
			return finish(), err
		}
		p, err := readPage(kind, page.Result)
		if err != nil {
			if n == 1 {
				return nil, err
			}
			snap.short = fmt.Sprintf("only the first %d items were listed: %s", count, reason(err, s.o.ListTimeout))
			return finish(), err
		}
		how = reading{headers: page.HTTP, tasks: page.Tasks}
		snap.legacy = page.Era != mcp.Modern
		if snap.legacy {
			snap.ttl, snap.public = s.o.LegacyTTL, false
		} else {
			snap.ttl = min(snap.ttl, p.ttl)
			snap.public = snap.public && p.public && !page.Private
		}
		pages = append(pages, p.items)
		count += p.count
		size += int64(len(page.Result))

		key := string(p.next)
		switch {
		case p.next == nil && count <= s.o.MaxItems:
			return finish(), nil
		case p.next != nil && key[0] != '"':
			snap.short = fmt.Sprintf("listing stopped after %d items: it sent a cursor that is no string", count)
		case seen[key]:
			snap.short = fmt.Sprintf("listing stopped after %d items: it repeated a cursor", count)
		case count >= s.o.MaxItems:
			snap.short = fmt.Sprintf("listing stopped at the bound of %d items", s.o.MaxItems)
		case n >= s.o.MaxPages:
			snap.short = fmt.Sprintf("listing stopped at the bound of %d pages", s.o.MaxPages)
		case size >= s.o.CacheBytes:
			snap.short = fmt.Sprintf("listing stopped after %d items at the bound of %d bytes", count, s.o.CacheBytes)
		}
		if snap.short != "" {
			return finish(), nil
		}
		seen[key] = true
		cursor = p.next
	}
}

type rawPage struct {
	items  []byte // the raw array; nil when absent or null
	count  int
	next   []byte
	ttl    time.Duration
	public bool
}

// readPage finds what matters in a list result. Duplicates among these members
// are refused: which one another reader takes cannot be known.
func readPage(kind mcp.Kind, result []byte) (rawPage, error) {
	var p rawPage
	seen := map[string]bool{}
	err := each(result, func(name string, value []byte) error {
		switch name {
		case kind.String(), "nextCursor", "ttlMs", "cacheScope":
			if seen[name] {
				return fmt.Errorf("two members %q", name)
			}
			seen[name] = true
		}
		null := string(value) == "null"
		switch name {
		case kind.String():
			if !null {
				p.items = value
			}
		case "nextCursor":
			if !null {
				p.next = value
			}
		case "ttlMs":
			// An invalid one promises nothing.
			if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms > 0 {
				p.ttl = min(maxTTL, time.Duration(min(ms, int64(maxTTL/time.Millisecond)))*time.Millisecond)
			}
		case "cacheScope":
			p.public = string(value) == `"public"`
		}
		return nil
	})
	if err == nil && p.items != nil {
		err = wire.Elements(p.items, func([]byte) bool { p.count++; return true })
	}
	if err != nil {
		return rawPage{}, fault.Wrap(err, fault.InvalidAnswer, "its answer to %s is not a valid list", kind.Method())
	}
	return p, nil
}

// read parses the items of a whole walk; items of a list that was read before
// are taken from memory. What cannot be listed is reported, once.
func (s *Server) read(upstream string, kind mcp.Kind, pages [][]byte, how reading) *itemSet {
	h := sha256.New()
	total := 0
	var head [10]byte
	head[0] = byte(kind)
	if how.headers {
		head[1] = 1
	}
	if how.tasks {
		head[1] |= 2
	}
	for _, page := range pages {
		binary.BigEndian.PutUint64(head[2:], uint64(len(page)))
		h.Write(head[:])
		h.Write(page)
		total += len(page)
	}
	set := &itemSet{bytes: int64(total) + 256}
	h.Write([]byte(upstream))
	h.Sum(set.digest[:0])
	if known := s.sets.find(set.digest); known != nil {
		return known
	}

	byID := map[string]bool{}
	for _, page := range pages {
		if page == nil {
			continue
		}
		// readPage has walked this array to its end.
		_ = wire.Elements(page, func(raw []byte) bool {
			if len(set.items) == s.o.MaxItems {
				return false
			}
			it, err := parseItem(kind, bytes.Clone(raw), how)
			switch {
			case err != nil:
				s.report(slog.LevelWarn, "an item of an upstream's list is left out",
					"upstream", upstream, "kind", kind.String(), "item", label(kind, raw), "reason", err.Error())
			case byID[it.id]:
				s.report(slog.LevelWarn, "an upstream lists an identifier twice; the first is kept",
					"upstream", upstream, "kind", kind.String(), "item", it.id)
			default:
				byID[it.id] = true
				set.items = append(set.items, it)
			}
			return true
		})
	}
	return set
}

// label names a broken item in a log.
func label(kind mcp.Kind, raw []byte) string {
	id := ""
	_ = each(raw, func(name string, value []byte) error {
		if name == kind.ID() && id == "" {
			id = string(value)
		}
		return nil
	})
	if id == "" {
		id = string(raw)
	}
	return id[:min(len(id), 80)]
}

// reason is a failure in words that a client may read.
func reason(err error, timeout time.Duration) string {
	var fe *fault.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", timeout)
	case errors.As(err, &fe):
		return fe.Message
	}
	return "its list could not be read"
}
