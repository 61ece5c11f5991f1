package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/google/uuid"
)

// Adopt finds the servers that died, and hands the living and the tombstoned rows
// of each to take, which is to Save them as neither, or to Delete them. Until
// take returns, no other server can adopt the same rows; and since a live server
// keeps its lock, take never sees a row of one.
//
// Rows that take leaves as they are, or fails on, are offered again to the next
// Adopt, here or elsewhere. A failure with one owner does not spare take the
// others.
func (d *DB) Adopt(ctx context.Context, take func(context.Context, []Agent) error) error {
	owners, err := d.others(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the owners: %w", err)
	}
	var errs []error
	for _, owner := range owners {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		if err := d.adopt(ctx, owner, take); err != nil {
			errs = append(errs, fmt.Errorf("cannot adopt from the server %s: %w", owner, err))
		}
	}
	return errors.Join(errs...)
}

func (d *DB) adopt(ctx context.Context, owner string, take func(context.Context, []Agent) error) error {
	lock, err := d.claim(owner)
	if lock == nil || err != nil {
		return err
	}
	defer lock.Close()
	// Read under the lock: whoever had it before may have adopted them.
	rows, err := d.owned(ctx, owner)
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		if err := take(ctx, rows); err != nil {
			return err
		}
	}
	return d.owners.Remove(owner)
}

// others lists every owner but this one: those with rows, because a lock file can
// get lost, and those with a lock file, because it is to be removed.
func (d *DB) others(ctx context.Context) ([]string, error) {
	var all []string
	rows, err := d.read.QueryContext(ctx, `
		select distinct owner
		from agents
		where owner <> ''`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var owner string
		if err := rows.Scan(&owner); err != nil {
			return nil, err
		}
		all = append(all, owner)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	files, err := fs.ReadDir(d.owners.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if uuid.Validate(file.Name()) == nil {
			all = append(all, file.Name())
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(o string) bool { return o == d.owner }), nil
}

func (d *DB) owned(ctx context.Context, owner string) ([]Agent, error) {
	const q = `
		from agents
		where owner = ? and owner <> ''
		order by id`
	stmt, err := d.read.stmt(ctx, selectWhole+q)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, owner)
	if err != nil {
		return nil, err
	}
	return collect(rows, whole)
}
