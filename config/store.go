package config

import (
	"log/slog"
	"net/url"
	"strings"
)

// Store says where state is kept. A PostgreSQL address may hold a password, so a
// Store prints itself without it.
type Store struct{ address string }

// Engines of a Store.
const (
	EngineSQLite   = "sqlite"
	EnginePostgres = "postgres"
	EngineMemory   = "memory"
)

// Engine is one of EngineSQLite, EnginePostgres and EngineMemory.
func (s Store) Engine() string {
	scheme, _, _ := strings.Cut(s.address, ":")
	if scheme == "postgresql" {
		return EnginePostgres
	}
	return scheme
}

// Path is the file of an SQLite store, and empty for the others.
func (s Store) Path() string {
	path, found := strings.CutPrefix(s.address, "sqlite:")
	if !found {
		return ""
	}
	return path
}

// Reveal returns the whole address, password included.
func (s Store) Reveal() string { return s.address }

// IsZero tells whether no address was written.
func (s Store) IsZero() bool { return s.address == "" }

// String is the address without password and parameters.
func (s Store) String() string {
	if s.Engine() != EnginePostgres {
		return s.address
	}
	u, err := url.Parse(s.address)
	if err != nil {
		return "postgres://" + hidden
	}
	return "postgres://" + u.Host + u.Path
}

// GoString hides the password from %#v.
func (s Store) GoString() string { return s.String() }

// MarshalText hides the password.
func (s Store) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the password from structured logs.
func (s Store) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (Store) form() form {
	return form{
		what:    "sqlite:PATH, postgres://... or memory:",
		pattern: `^(sqlite:.+|postgres(ql)?://[^/]*.*|memory:)$`,
		secret:  true,
	}
}

func (s *Store) set(text string) error {
	path, lite := strings.CutPrefix(text, "sqlite:")
	switch {
	case lite && path != "" && !strings.ContainsAny(path, "\x00\n\r"), text == "memory:":
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		if _, err := url.Parse(text); err != nil {
			return errForm
		}
	default:
		return errForm
	}
	s.address = text
	return nil
}

// ParseStore reads an address as the document and the --state flag hold it.
func ParseStore(text string) (Store, error) {
	var s Store
	if err := s.set(text); err != nil {
		return Store{}, Problems{{Path: "state", Message: "must be " + s.form().what}}
	}
	return s, nil
}
