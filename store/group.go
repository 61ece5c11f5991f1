package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// A Group is what a token can see.
type Group struct {
	ID      string
	ByAgent bool // a caged agent chose the token
}

// GroupByToken returns the group of a token, given the token's hash of 16 bytes or
// more. The error is ErrNotFound if there is none.
func (d *DB) GroupByToken(ctx context.Context, hash []byte) (Group, error) {
	g, err := d.group(ctx, hash)
	if err != nil {
		return Group{}, fmt.Errorf("cannot find the token's group: %w", err)
	}
	return g, nil
}

// MakeGroup returns the group of a token like GroupByToken, and makes it if there is
// none: by an agent or by a client. Of calls at the same moment one makes it, and
// all return it.
func (d *DB) MakeGroup(ctx context.Context, hash []byte, byAgent bool) (Group, error) {
	g, err := d.group(ctx, hash)
	if errors.Is(err, ErrNotFound) {
		g, err = d.makeGroup(ctx, hash, byAgent)
	}
	if err != nil {
		return Group{}, fmt.Errorf("cannot make the token's group: %w", err)
	}
	return g, nil
}

func (d *DB) group(ctx context.Context, hash []byte) (g Group, err error) {
	const q = `
		select "group", by_agent
		from groups
		where hash = ?`
	stmt, err := d.read.stmt(ctx, q)
	if err != nil {
		return Group{}, err
	}
	err = stmt.QueryRowContext(ctx, hash).Scan(&g.ID, &g.ByAgent)
	if errors.Is(err, sql.ErrNoRows) {
		return Group{}, ErrNotFound
	}
	return g, err
}

func (d *DB) makeGroup(ctx context.Context, hash []byte, byAgent bool) (g Group, err error) {
	const q = `
		insert into groups (hash, "group", by_agent)
		values (?, ?, ?)
		on conflict (hash) do update set hash = hash
		returning "group", by_agent`
	err = d.write.QueryRowContext(ctx, q, hash, uuid.NewString(), byAgent).Scan(&g.ID, &g.ByAgent)
	return g, err
}
