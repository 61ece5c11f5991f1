package store

import (
	"context"
	"fmt"
)

// Claim writes a row anew like Save, if it is neither living nor a tombstone in
// the database: of several servers that want to start the same agent, one does.
// The error is ErrNotFound for the others.
func (d *DB) Claim(ctx context.Context, a Agent) error {
	a.Owner = d.ownerOf(a)
	const only = " and living = 0 and removing = 0"
	n, err := d.exec(ctx, updateAgent+only, append(a.places(whole)[fixed:], a.ID)...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("cannot claim agent %s: %w", a.ID, err)
	}
	return nil
}

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
