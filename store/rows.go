package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Insert adds a row. An id that is taken is an error.
func (d *DB) Insert(ctx context.Context, a Agent) error {
	a.Owner = d.ownerOf(a)
	_, err := d.exec(ctx, insertAgent, a.places(whole)...)
	if err != nil {
		return fmt.Errorf("cannot insert agent %s: %w", a.ID, err)
	}
	return nil
}

// Save writes a row anew, LastText too: an Agent that came from List would take
// the text away. The error is ErrNotFound if the row is gone.
func (d *DB) Save(ctx context.Context, a Agent) error {
	a.Owner = d.ownerOf(a)
	n, err := d.exec(ctx, updateAgent, append(a.places(whole)[fixed:], a.ID)...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("cannot save agent %s: %w", a.ID, err)
	}
	return nil
}

// ownerOf is the owner that a is written with.
func (d *DB) ownerOf(a Agent) string {
	switch {
	case !a.Living && !a.Removing:
		return ""
	case a.Owner == "":
		return d.owner
	}
	return a.Owner
}

// Delete removes a row. The error is ErrNotFound if it is gone.
func (d *DB) Delete(ctx context.Context, id string) error {
	const q = `
		delete from agents
		where id = ?`
	n, err := d.exec(ctx, q, id)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("cannot delete agent %s: %w", id, err)
	}
	return nil
}

// Agent reads an agent of a group. The error is ErrNotFound if there is none, be
// it that it belongs to another group or that it is being removed.
func (d *DB) Agent(ctx context.Context, group, id string) (Agent, error) {
	const q = `
		from agents
		where id = ? and "group" = ? and removing = 0`
	return d.one(ctx, id, q, id, group)
}

// Any reads a row whatever its group, tombstones too. It is not for requests:
// nothing in it keeps groups apart.
func (d *DB) Any(ctx context.Context, id string) (Agent, error) {
	const q = `
		from agents
		where id = ?`
	return d.one(ctx, id, q, id)
}

// Count counts the living rows: of all groups, and of the one.
func (d *DB) Count(ctx context.Context, group string) (all, inGroup int, err error) {
	const q = `
		select count(*), count(*) filter (where "group" = ?)
		from agents
		where living = 1`
	stmt, err := d.read.stmt(ctx, q)
	if err == nil {
		err = stmt.QueryRowContext(ctx, group).Scan(&all, &inGroup)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("cannot count living agents: %w", err)
	}
	return all, inGroup, nil
}

func (d *DB) one(ctx context.Context, id, from string, args ...any) (a Agent, err error) {
	stmt, err := d.read.stmt(ctx, selectWhole+from)
	if err == nil {
		err = stmt.QueryRowContext(ctx, args...).Scan(a.places(whole)...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return Agent{}, fmt.Errorf("cannot read agent %s: %w", id, err)
	}
	return a, nil
}

// exec runs a statement that writes, and counts the rows it wrote.
func (d *DB) exec(ctx context.Context, text string, args ...any) (int64, error) {
	stmt, err := d.write.stmt(ctx, text)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
