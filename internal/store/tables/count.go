package tables

import "context"

// Scopes of counts. A principal's scope is sessionScope and its key.
var (
	sessionScope = []byte("session:")
	southScope   = []byte("south")
)

func scopeOf(principal [32]byte) []byte {
	return append(append(make([]byte, 0, len(sessionScope)+len(principal)), sessionScope...), principal[:]...)
}

// countUp counts one more unless the bound is reached, and locks the count
// until the end of the transaction. To keep clear of deadlocks a transaction
// locks its principals' counts first, then rows, then the count of all.
func countUp(ctx context.Context, tx Tx, scope []byte, bound int) (ok bool, err error) {
	if bound < 1 {
		return false, nil
	}
	n, err := tx.Exec(ctx, `INSERT INTO counts (scope, n) VALUES ($1, 1)
		ON CONFLICT (scope) DO UPDATE SET n = counts.n + 1 WHERE counts.n < $2`, scope, int64(bound))
	return n == 1, err
}

// countDown counts by less.
func countDown(ctx context.Context, tx Tx, scope []byte, by int) error {
	_, err := tx.Exec(ctx, `UPDATE counts SET n = n - $2 WHERE scope = $1`, scope, int64(by))
	return err
}

// count is the number of records in a scope.
func count(ctx context.Context, db DB, scope []byte) (n int, err error) {
	err = db.Read(ctx, func(tx Tx) error {
		var sum int64
		// The sum over no row is NULL.
		err := tx.Row(ctx, `SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM counts WHERE scope = $1`, []any{scope}, &sum)
		n = int(sum)
		return err
	})
	return n, err
}
