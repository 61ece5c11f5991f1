package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
)

// Steps in the order of their names. One that has been released is never edited:
// a change is a new step.
//
//go:embed schema/*.sql
var schema embed.FS

// migrate runs the steps that are still to come.
func migrate(ctx context.Context, db *sql.DB) error {
	steps, err := fs.Glob(schema, "schema/*.sql") // sorted
	if err != nil {
		return err
	}
	for {
		done, err := migrateOne(ctx, db, steps)
		if done || err != nil {
			return err
		}
	}
}

// migrateOne runs the next step, in the transaction that also counts it. The
// count is read within it, since another server may be migrating too.
func migrateOne(ctx context.Context, db *sql.DB, steps []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("cannot begin to migrate: %w", err)
	}
	defer tx.Rollback() // does nothing after Commit
	var have int
	if err := tx.QueryRowContext(ctx, `pragma user_version`).Scan(&have); err != nil {
		return false, fmt.Errorf("cannot read its schema version: %w", err)
	}
	if have > len(steps) {
		return false, fmt.Errorf("%w: schema version %d, known here up to %d", ErrNewer, have, len(steps))
	}
	if have == len(steps) {
		return true, nil
	}
	if err := apply(ctx, tx, steps[have], have+1); err != nil {
		return false, fmt.Errorf("cannot migrate with %s: %w", steps[have], err)
	}
	return false, nil
}

func apply(ctx context.Context, tx *sql.Tx, step string, version int) error {
	text, err := schema.ReadFile(step)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`pragma user_version = %d`, version))
	if err != nil {
		return err
	}
	return tx.Commit()
}
