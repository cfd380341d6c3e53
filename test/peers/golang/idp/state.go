package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// state is what a restart keeps: keys and clients.
type state struct {
	file string // "": nowhere

	mu      sync.Mutex // guards what follows, and the file
	keys    []*key     // all that are published
	current *key       // what the provider signs with
	clients map[string]*client
}

// kept is the form of the state's file.
type kept struct {
	Keys    []*key    `json:"keys"`
	Current string    `json:"current"`
	Clients []*client `json:"clients"`
}

// openState reads the file, or begins with one new key.
func openState(file string, alg jose.SignatureAlgorithm) (*state, error) {
	s := &state{file: file, clients: map[string]*client{}}
	if file != "" {
		raw, err := os.ReadFile(file)
		switch {
		case err == nil:
			return s, s.restore(raw)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	_, err := s.rotate(alg)
	return s, err
}

func (s *state) restore(raw []byte) error {
	var k kept
	if err := json.Unmarshal(raw, &k); err != nil {
		return err
	}
	for _, c := range k.Clients {
		s.clients[c.ID] = c
	}
	s.keys = k.Keys
	for _, each := range s.keys {
		if err := each.load(); err != nil {
			return err
		}
		if each.KID == k.Current {
			s.current = each
		}
	}
	if s.current == nil {
		return errors.New("the state has no current key")
	}
	return nil
}

// save writes the file; mu must be held.
func (s *state) save() error {
	if s.file == "" {
		return nil
	}
	k := kept{Keys: s.keys, Current: s.current.KID}
	for _, c := range s.clients {
		k.Clients = append(k.Clients, c)
	}
	raw, err := json.Marshal(k)
	if err != nil {
		return err
	}
	// A kill may come at any time, and the file is then the old one or the new one.
	if err := os.WriteFile(s.file+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// rotate publishes a new key and signs with it from now on; "" keeps the algorithm.
func (s *state) rotate(alg jose.SignatureAlgorithm) (*key, error) {
	if alg == "" {
		alg = s.signing().Alg
	}
	k, err := newKey(alg) // takes long, so not under the lock
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.current = append(s.keys, k), k
	return k, s.save()
}

// retire takes every key but the current one from the key set.
func (s *state) retire() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := len(s.keys) - 1
	s.keys = []*key{s.current}
	return gone, s.save()
}

// signing is the current key.
func (s *state) signing() *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// keyFor is a published key that fits an algorithm: the current one if it does, else one made for the purpose.
func (s *state) keyFor(alg jose.SignatureAlgorithm) (*key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := family(alg)
	if want == "" {
		return nil, fmt.Errorf("no keys for the algorithm %q", alg)
	}
	if family(s.current.Alg) == want {
		return s.current, nil
	}
	for _, k := range s.keys {
		if family(k.Alg) == want {
			return k, nil
		}
	}
	k, err := newKey(alg)
	if err != nil {
		return nil, err
	}
	s.keys = append(s.keys, k)
	return k, s.save()
}

// set returns the published keys.
func (s *state) set() []*key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*key(nil), s.keys...)
}

func (s *state) register(c *client) error {
	if c.ID == "" || c.Secret == "" {
		return errors.New("a client needs an id and a secret")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c.ID] = c
	return s.save()
}

// client returns a registered client, or nil.
func (s *state) client(id string) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[id]
}
