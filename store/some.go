package store

import (
	"context"
	"fmt"
)

// Some reads those of the agents with these ids that Agent would find in the group,
// in no order, and all of one moment. Of LastText it reads the first text bytes,
// which may end within a character; with 0 it leaves LastText nil.
func (d *DB) Some(ctx context.Context, group string, ids []string, text int) ([]Agent, error) {
	rows, err := d.some(ctx, group, ids, text)
	if err != nil {
		return nil, fmt.Errorf("cannot read %d agents: %w", len(ids), err)
	}
	return rows, nil
}

func (d *DB) some(ctx context.Context, group string, ids []string, text int) ([]Agent, error) {
	const q = `
		from agents
		where id in (select value from json_each(?1)) and "group" = ?2 and removing = 0`
	query, n := selectBrief+q, whole-1
	args := []any{list{&ids}, group}
	if text > 0 {
		// As a blob, since the text of SQLite ends at a NUL.
		query, n = selectBrief+`, substr(cast(last_text as blob), 1, ?3)`+q, whole
		args = append(args, text)
	}
	stmt, err := d.read.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, n)
}
