package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Claim makes a row that is neither living nor a tombstone this server's and
// living, in the given state, and keeps the state before as Resume. It returns the
// row as it is then: what somebody else wrote since the caller looked is in it. Of
// several servers that want the same agent, one gets it. The error is ErrNotFound
// for the others.
func (d *DB) Claim(ctx context.Context, id, state string, at time.Time) (a Agent, err error) {
	stmt, err := d.write.stmt(ctx, claimAgent)
	if err == nil {
		err = stmt.QueryRowContext(ctx, state, d.owner, moment{&at}, id).Scan(a.places(whole)...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Agent{}, fmt.Errorf("cannot claim agent %s: %w", id, err)
	}
	return a, nil
}

var claimAgent = `
	update agents
	set resume = state, state = ?, living = 1, owner = ?, updated = ?
	where id = ? and living = 0 and removing = 0
	returning ` + strings.Join(names, ", ")

// Tombstone marks a row that is not living as being removed, by this server. The
// error is ErrNotFound if there is no such row: it is gone, living, or somebody
// else's tombstone.
func (d *DB) Tombstone(ctx context.Context, id string) error {
	const q = `
		update agents
		set removing = 1, owner = ?
		where id = ? and living = 0 and (removing = 0 or owner = ?)`
	n, err := d.exec(ctx, q, d.owner, id, d.owner)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("cannot tombstone agent %s: %w", id, err)
	}
	return nil
}
