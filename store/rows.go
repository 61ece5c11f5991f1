package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// A FullError says that an ancestor of a new row has had as many descendants as it
// may.
type FullError struct{ ID string }

func (e *FullError) Error() string { return "agent " + e.ID + " has had all its descendants" }

// ErrOrphan says that the parent of a new row does not live any more.
var ErrOrphan = errors.New("its parent does not live")

// Insert adds a row and counts it with each of its ancestors, which may have had at
// most most descendants by then; otherwise the error is a *FullError. An ancestor
// that is gone counts nothing, but the parent must live: the error is ErrOrphan. So
// once an agent is stopped nothing new appears below it. An id that is taken is an
// error.
func (d *DB) Insert(ctx context.Context, a Agent, most int64) error {
	a.Owner = d.ownerOf(a)
	err := d.change(ctx, func(tx *sql.Tx) error {
		if len(a.Ancestors) > 0 {
			if err := countDescendant(ctx, tx, &a, most); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, insertAgent, a.places(whole)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot insert agent %s: %w", a.ID, err)
	}
	return nil
}

// Full returns the deepest of some agents that has had as many descendants as it may,
// "" if none has. It saves the work of an Insert that would fail.
func (d *DB) Full(ctx context.Context, ids []string, most int64) (id string, err error) {
	stmt, err := d.read.stmt(ctx, fullAgent)
	if err == nil {
		err = stmt.QueryRowContext(ctx, list{&ids}, most).Scan(&id)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("cannot count descendants: %w", err)
	}
	return id, nil
}

const fullAgent = `
	select id
	from agents
	where id in (select value from json_each(?)) and descendants >= ?
	order by depth desc
	limit 1`

func countDescendant(ctx context.Context, tx *sql.Tx, a *Agent, most int64) error {
	const alive = `
		select 1
		from agents
		where id = ? and living = 1`
	const count = `
		update agents
		set descendants = descendants + 1
		where id in (select value from json_each(?))`
	var there bool
	err := tx.QueryRowContext(ctx, alive, a.Parent).Scan(&there)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrOrphan
	}
	if err != nil {
		return err
	}
	var id string
	err = tx.QueryRowContext(ctx, fullAgent, list{&a.Ancestors}, most).Scan(&id)
	switch {
	case err == nil:
		return &FullError{id}
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	_, err = tx.ExecContext(ctx, count, list{&a.Ancestors})
	return err
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

// Delete removes a row, and with it what was to be told to its agent. What it had to
// tell stays. An agent that was never ready does not count as a descendant. The
// error is ErrNotFound if the row is gone.
func (d *DB) Delete(ctx context.Context, id string) error {
	err := d.change(ctx, func(tx *sql.Tx) error {
		for _, q := range []string{`
			update agents
			set descendants = descendants - 1
			where id in (select value
				from agents, json_each(ancestors)
				where agents.id = ?1 and ready = 0)`, `
			update callbacks
			set error = 'the agent that was to be told is removed'
			where target = ?1`, `
			delete from debts
			where target = ?1`, `
			delete from callbacks
			where child = ?1`,
		} {
			if _, err := tx.ExecContext(ctx, q, id); err != nil {
				return err
			}
		}
		return one(tx.ExecContext(ctx, `delete from agents where id = ?`, id))
	})
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
	return d.single(ctx, id, q, id, group)
}

// Any reads a row whatever its group, tombstones too. It is not for requests:
// nothing in it keeps groups apart.
func (d *DB) Any(ctx context.Context, id string) (Agent, error) {
	const q = `
		from agents
		where id = ?`
	return d.single(ctx, id, q, id)
}

// Count counts the living rows: all of them, and for each of the groups those that
// are in it or count against its limits.
func (d *DB) Count(ctx context.Context, groups ...string) (all int, in []int, err error) {
	const q = `
		select count(*), count(*) filter (where ?1 in ("group", account))
		from agents
		where living = 1`
	stmt, err := d.read.stmt(ctx, q)
	for i := 0; err == nil && i < len(groups); i++ {
		in = append(in, 0)
		err = stmt.QueryRowContext(ctx, groups[i]).Scan(&all, &in[i])
	}
	if err != nil {
		return 0, nil, fmt.Errorf("cannot count living agents: %w", err)
	}
	return all, in, nil
}

func (d *DB) single(ctx context.Context, id, from string, args ...any) (a Agent, err error) {
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

// change runs f as one transaction of the writer. f must not prepare statements of
// the pool: they would wait for the connection that it has.
func (d *DB) change(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// one is ErrNotFound for a statement that wrote no row.
func one(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrNotFound, err)
	}
	return nil
}
