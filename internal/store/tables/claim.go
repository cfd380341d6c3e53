package tables

import (
	"context"
	"strconv"
	"strings"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Claims implements store.Claims.
type Claims struct{ db DB }

// NewClaims returns the repository of claims in db.
func NewClaims(db DB) *Claims { return &Claims{db: db} }

// Take implements store.Claims.
func (c *Claims) Take(ctx context.Context, session, owner string) (store.Claim, error) {
	taken := store.Claim{Session: session, Owner: owner}
	err := c.db.Write(ctx, func(tx Tx) error {
		var generation int64
		err := tx.Row(ctx, `INSERT INTO claims (session, owner, generation) VALUES ($1, $2, 1)
			ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, generation = claims.generation + 1
			RETURNING generation`, []any{session, owner}, &generation)
		taken.Generation = uint64(generation)
		return err
	})
	if err != nil {
		return store.Claim{}, err
	}
	return taken, nil
}

// Get implements store.Claims.
func (c *Claims) Get(ctx context.Context, session string) (store.Claim, error) {
	found := store.Claim{Session: session}
	err := c.db.Read(ctx, func(tx Tx) error {
		var generation int64
		err := tx.Row(ctx, `SELECT owner, generation FROM claims WHERE session = $1`, []any{session}, &found.Owner, &generation)
		found.Generation = uint64(generation)
		return err
	})
	if err != nil {
		return store.Claim{}, err
	}
	return found, nil
}

// chunk is how many claims one query asks for.
const chunk = 64

// Queries for a full chunk; a shorter one repeats its last session.
var currentClaims = func() string {
	var b strings.Builder
	b.WriteString(`SELECT session, owner, generation FROM claims WHERE session IN (`)
	for i := range chunk {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(i+1))
	}
	b.WriteString(")")
	return b.String()
}()

// Lost implements store.Claims.
func (c *Claims) Lost(ctx context.Context, held []store.Claim) (lost []store.Claim, err error) {
	for len(held) > 0 {
		part := held[:min(chunk, len(held))]
		held = held[len(part):]
		args := make([]any, chunk)
		for i := range args {
			args[i] = part[min(i, len(part)-1)].Session
		}
		current := map[string]store.Claim{}
		err = c.db.Read(ctx, func(tx Tx) error {
			clear(current)
			return tx.Rows(ctx, currentClaims, args, func(r Scanner) error {
				var is store.Claim
				var generation int64
				if err := r.Scan(&is.Session, &is.Owner, &generation); err != nil {
					return err
				}
				is.Generation = uint64(generation)
				current[is.Session] = is
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		for _, h := range part {
			if current[h.Session] != h {
				lost = append(lost, h)
			}
		}
	}
	return lost, nil
}

// Release implements store.Claims.
func (c *Claims) Release(ctx context.Context, held store.Claim) error {
	return c.db.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(ctx, `UPDATE claims SET owner = '' WHERE session = $1 AND owner = $2 AND generation = $3`,
			held.Session, held.Owner, int64(held.Generation))
		return err
	})
}

// End removes the claim on a session that lives in another repository than
// Sessions. It is no error if there is none.
func (c *Claims) End(ctx context.Context, session string) error {
	return c.db.Write(ctx, func(tx Tx) error { return endClaim(ctx, tx, session) })
}

func endClaim(ctx context.Context, tx Tx, session string) error {
	_, err := tx.Exec(ctx, `DELETE FROM claims WHERE session = $1`, session)
	return err
}
