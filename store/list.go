package store

import (
	"context"
	"database/sql"
	"fmt"
)

// A Query chooses rows of one group. Group is required; the zero value of any
// other field does not restrict.
type Query struct {
	Group  string
	States []string
	Kin    string // only this agent and its descendants
	Before string // only ids less than this one: the last id of the page before
	Limit  int    // rows at most
}

// List reads a page of agents, the newest first, without their LastText. total is
// how many there are in the group and the states on all pages together. Rows and
// total are of one moment.
func (d *DB) List(ctx context.Context, q Query) (rows []Agent, total int, err error) {
	rows, total, err = d.list(ctx, q)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list agents: %w", err)
	}
	return rows, total, nil
}

const (
	inStates = `
		from agents
		where "group" = ?1 and removing = 0
			and (?2 = '[]' or state in (select value from json_each(?2)))`
	ofKin = `
			and (id = ?3 or instr(ancestors, ?3) > 0)`
	onPage = `
			and id < ?4
		order by id desc
		limit ?5`
)

func (d *DB) list(ctx context.Context, q Query) (rows []Agent, total int, err error) {
	states, err := list{&q.States}.Value()
	if err != nil {
		return nil, 0, err
	}
	which := inStates
	if q.Kin != "" { // apart, because it is not in the index
		which += ofKin
	}
	count, err := d.read.stmt(ctx, `select count(*)`+which)
	if err != nil {
		return nil, 0, err
	}
	page, err := d.read.stmt(ctx, selectBrief+which+onPage)
	if err != nil {
		return nil, 0, err
	}
	tx, err := d.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	defer tx.Rollback()
	if err := tx.StmtContext(ctx, count).QueryRowContext(ctx, q.Group, states, q.Kin).Scan(&total); err != nil {
		return nil, 0, err
	}
	found, err := tx.StmtContext(ctx, page).QueryContext(ctx, q.Group, states, q.Kin, q.before(), q.limit())
	if err != nil {
		return nil, 0, err
	}
	rows, err = collect(found, whole-1)
	return rows, total, err
}

// before is the bound of ids. In SQLite's order every blob comes after every text,
// so that one statement, and one range of the index, serves both.
func (q Query) before() any {
	if q.Before == "" {
		return []byte{0}
	}
	return q.Before
}

func (q Query) limit() int {
	if q.Limit <= 0 {
		return -1
	}
	return q.Limit
}

// Children lists the ids of the agents of a group whose parents are given, by
// parent, the oldest first.
func (d *DB) Children(ctx context.Context, group string, parents []string) (map[string][]string, error) {
	const q = `
		select parent, id
		from agents
		where parent <> '' and parent in (select value from json_each(?)) and "group" = ? and removing = 0
		order by id`
	children := map[string][]string{}
	stmt, err := d.read.stmt(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("cannot list children: %w", err)
	}
	rows, err := stmt.QueryContext(ctx, list{&parents}, group)
	if err != nil {
		return nil, fmt.Errorf("cannot list children: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var parent, id string
		if err := rows.Scan(&parent, &id); err != nil {
			return nil, fmt.Errorf("cannot list children: %w", err)
		}
		children[parent] = append(children[parent], id)
	}
	return children, rows.Err()
}

// Descendants reads the ids of an agent's descendants in all groups, the oldest, and
// so the shallowest of each line, first. living restricts them to living ones.
func (d *DB) Descendants(ctx context.Context, id string, living bool) ([]string, error) {
	const q = `
		select id
		from agents
		where parent <> '' and instr(ancestors, ?1) > 0 and removing = 0 and (living = 1 or not ?2)
		order by id`
	ids, err := d.strings(ctx, q, id, living)
	if err != nil {
		return nil, fmt.Errorf("cannot list the descendants of %s: %w", id, err)
	}
	return ids, nil
}

// strings reads one column.
func (d *DB) strings(ctx context.Context, text string, args ...any) (all []string, err error) {
	stmt, err := d.read.stmt(ctx, text)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}
