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
	onPage = `
			and id < ?3
		order by id desc
		limit ?4`
)

func (d *DB) list(ctx context.Context, q Query) (rows []Agent, total int, err error) {
	states, err := list{&q.States}.Value()
	if err != nil {
		return nil, 0, err
	}
	count, err := d.read.stmt(ctx, `select count(*)`+inStates)
	if err != nil {
		return nil, 0, err
	}
	page, err := d.read.stmt(ctx, selectBrief+inStates+onPage)
	if err != nil {
		return nil, 0, err
	}
	tx, err := d.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	defer tx.Rollback()
	if err := tx.StmtContext(ctx, count).QueryRowContext(ctx, q.Group, states).Scan(&total); err != nil {
		return nil, 0, err
	}
	found, err := tx.StmtContext(ctx, page).QueryContext(ctx, q.Group, states, q.before(), q.limit())
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
