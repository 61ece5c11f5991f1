package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// GroupByToken returns the group of a token, given the token's hash of 16 bytes or
// more. If there is none it makes one, or, without create, returns ErrNotFound.
// Of calls at the same moment one makes the group, and all return it.
func (d *DB) GroupByToken(ctx context.Context, hash []byte, create bool) (group string, err error) {
	group, err = d.group(ctx, hash)
	if create && errors.Is(err, ErrNotFound) {
		group, err = d.makeGroup(ctx, hash)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the token's group: %w", err)
	}
	return group, nil
}

func (d *DB) group(ctx context.Context, hash []byte) (group string, err error) {
	const q = `
		select "group"
		from groups
		where hash = ?`
	stmt, err := d.read.stmt(ctx, q)
	if err != nil {
		return "", err
	}
	err = stmt.QueryRowContext(ctx, hash).Scan(&group)
	if errors.Is(err, sql.ErrNoRows) {
		return "", ErrNotFound
	}
	return group, err
}

func (d *DB) makeGroup(ctx context.Context, hash []byte) (group string, err error) {
	const q = `
		insert into groups (hash, "group")
		values (?, ?)
		on conflict (hash) do update set hash = hash
		returning "group"`
	err = d.write.QueryRowContext(ctx, q, hash, uuid.NewString()).Scan(&group)
	return group, err
}
