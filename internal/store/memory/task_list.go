package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/penstock-mcp/penstock/internal/store"
)

// List implements store.Tasks.
func (s *Tasks) List(_ context.Context, principal [32]byte, server string, after store.TaskPosition, limit int) ([]*store.Task, error) {
	s.mu.Lock()
	hashes := slices.Collect(maps.Keys(s.own[principal]))
	s.mu.Unlock()
	after.Principal = principal
	p := page{after: after, limit: limit}
	for _, hash := range hashes {
		h := s.at(&hash)
		h.mu.RLock()
		all := h.of[hash]
		if i, found := find(all, principal); found && all[i].record.Server == server {
			p.add(all[i])
		}
		h.mu.RUnlock()
	}
	return p.tasks(), nil
}

// All implements store.Tasks. It looks at every record, one shard at a time: an
// operator may wait for it.
func (s *Tasks) All(_ context.Context, upstream string, after store.TaskPosition, limit int) ([]*store.Task, error) {
	p := page{after: after, limit: limit}
	for i := range s.shard {
		h := &s.shard[i]
		h.mu.RLock()
		for _, all := range h.of {
			for _, e := range all {
				if upstream == "" || e.record.Upstream == upstream {
					p.add(e)
				}
			}
		}
		h.mu.RUnlock()
	}
	return p.tasks(), nil
}

// newer orders a list.
func newer(a, b store.TaskPosition) int {
	if by := b.Created.Compare(a.Created); by != 0 {
		return by
	}
	if by := bytes.Compare(b.Hash[:], a.Hash[:]); by != 0 {
		return by
	}
	return bytes.Compare(b.Principal[:], a.Principal[:])
}

// page collects the first records behind a position, whatever order they come
// in. It holds a bounded number more than were asked for.
type page struct {
	after store.TaskPosition
	limit int
	found []ownedTask
}

func (p *page) add(e ownedTask) {
	if p.limit < 1 || !p.after.Created.IsZero() && newer(p.after, e.record.Position()) >= 0 {
		return
	}
	if p.found = append(p.found, e); len(p.found) >= 2*p.limit+1000 {
		p.cut()
	}
}

func (p *page) cut() {
	slices.SortFunc(p.found, func(a, b ownedTask) int { return newer(a.record.Position(), b.record.Position()) })
	p.found = p.found[:min(len(p.found), max(0, p.limit))]
}

func (p *page) tasks() (all []*store.Task) {
	if p.cut(); len(p.found) == 0 {
		return nil
	}
	for _, e := range p.found {
		all = append(all, e.whole())
	}
	return all
}
