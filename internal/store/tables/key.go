package tables

import (
	"context"
	"crypto/rand"
	"time"
)

// Keys implements store.Keys.
type Keys struct {
	db  DB
	now func() time.Time
}

// NewKeys returns the repository of sealing keys in db.
func NewKeys(db DB, now func() time.Time) *Keys { return &Keys{db: db, now: now} }

// Ring implements store.Keys. Of several instances that start on an empty store
// one inserts its key, and all read that one.
func (k *Keys) Ring(ctx context.Context) ([][]byte, error) {
	ring, err := k.read(ctx)
	if err != nil || len(ring) > 0 {
		return ring, err
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	err = k.db.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO sealing_keys (slot, secret, created) VALUES (1, $1, $2) ON CONFLICT (slot) DO NOTHING`,
			secret, k.now().UnixNano())
		return err
	})
	if err != nil {
		return nil, err
	}
	return k.read(ctx)
}

func (k *Keys) read(ctx context.Context) (ring [][]byte, err error) {
	err = k.db.Read(ctx, func(tx Tx) error {
		ring = nil
		return tx.Rows(ctx, `SELECT secret FROM sealing_keys ORDER BY slot DESC`, nil, func(r Scanner) error {
			var secret []byte
			if err := r.Scan(&secret); err != nil {
				return err
			}
			ring = append(ring, secret)
			return nil
		})
	})
	return ring, err
}
