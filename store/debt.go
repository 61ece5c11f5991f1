package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// A Debt is what an agent's target is still to be told: one end of the agent.
type Debt struct {
	Child  string
	Seq    int64 // 1 for the first of the child; given by SaveOwing
	Target string
	Hold   time.Time // until then only once nobody works for the child any more; zero: no hold
	Tries  int       // that failed
	Sent   bool      // it may have arrived, although nobody has written it down
	Body   string    // JSON
}

// A Callback is what became of an agent's debts. The zero value is that of one which
// had none.
type Callback struct {
	LastSeq, NotifiedSeq int64
	NotifiedAt           *time.Time
	Error                *string
}

// A Bound is how often an agent may tell its target without a word of a client, and
// what is its error once it has.
type Bound struct {
	Most int64
	Held string
}

// SaveOwing saves a row like Save and, in the same transaction, adds the debts that
// its new state causes; Child, Seq, Tries and Sent are not looked at. A target that
// is removed is owed nothing.
func (d *DB) SaveOwing(ctx context.Context, a Agent, debts []Debt, b Bound) error {
	a.Owner = d.ownerOf(a)
	err := d.change(ctx, func(tx *sql.Tx) error {
		if err := one(tx.ExecContext(ctx, updateAgent, append(a.places(whole)[fixed:], a.ID)...)); err != nil {
			return err
		}
		for _, debt := range debts {
			if err := owe(ctx, tx, a.ID, debt, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot save agent %s and what it owes: %w", a.ID, err)
	}
	return nil
}

func owe(ctx context.Context, tx *sql.Tx, child string, debt Debt, b Bound) error {
	const next = `
		insert into callbacks (child, target, last_seq, notified_seq, unasked)
		select ?1, ?2, 1, 0, 0
		where exists (select 1 from agents where id = ?2 and removing = 0)
		on conflict (child) do update
		set last_seq = last_seq + 1,
			error = case when unasked >= ?3 then ?4 else error end
		returning last_seq`
	const add = `
		insert into debts (child, seq, target, due, hold, tries, sent, body)
		values (?, ?, ?, 0, ?, 0, 0, ?)`
	var seq int64
	err := tx.QueryRowContext(ctx, next, child, debt.Target, b.Most, b.Held).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, add, child, seq, debt.Target, until(debt.Hold), debt.Body)
	}
	return err
}

// until is a time as unix milliseconds, 0 for the zero time.
func until(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// deliverable are the conditions of a debt that may be told now: it is due, its child
// will not have told too much with those before it, and nobody works for a child whose debt is held. An agent
// works for another if it will call that one back and is in one of the states, or
// has not been heard yet.
const deliverable = `
		from debts d
		where d.due <= ?1
			and (select count(*) from debts e where e.child = d.child and e.seq < d.seq)
				+ coalesce((select unasked from callbacks c where c.child = d.child), 0) < ?2
			and (d.hold <= ?1
				or not exists (select 1 from agents p where p.id = d.child and p.living = 1)
				or not (exists (select 1 from agents p where p.id = d.child and p.state in (select value from json_each(?3)))
					or exists (select 1 from agents w where w.callback = d.child and w.state in (select value from json_each(?3)))
					or exists (select 1 from debts e where e.target = d.child)))`

// Debts reads what may be told to a target now, by child and in the order in which
// it came to be. working are the states of an agent at work, and most is how often a
// child may tell without a word of a client.
func (d *DB) Debts(ctx context.Context, target string, now time.Time, working []string, most int64) ([]Debt, error) {
	const q = `
		select child, seq, target, tries, sent, body` + deliverable + `
			and d.target = ?4
		order by child, seq
		limit 64`
	debts, err := d.debts(ctx, q, now.UnixMilli(), most, list{&working}, target)
	if err != nil {
		return nil, fmt.Errorf("cannot read what agent %s is to be told: %w", target, err)
	}
	return debts, nil
}

func (d *DB) debts(ctx context.Context, q string, args ...any) (all []Debt, err error) {
	stmt, err := d.read.stmt(ctx, q)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b Debt
		if err := rows.Scan(&b.Child, &b.Seq, &b.Target, &b.Tries, &b.Sent, &b.Body); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, rows.Err()
}

// Creditors lists the agents of this opening that may be told something now; the
// arguments are those of Debts.
func (d *DB) Creditors(ctx context.Context, now time.Time, working []string, most int64) ([]string, error) {
	const q = `
		select distinct d.target` + deliverable + `
			and exists (select 1 from agents t where t.id = d.target and t.living = 1 and t.owner = ?4)`
	ids, err := d.strings(ctx, q, now.UnixMilli(), most, list{&working}, d.owner)
	if err != nil {
		return nil, fmt.Errorf("cannot list who is to be told: %w", err)
	}
	return ids, nil
}

// Working lists the agents that will call target back and are in one of the states,
// or have not been heard yet, the oldest first.
func (d *DB) Working(ctx context.Context, target string, states []string) ([]string, error) {
	const q = `
		select id from agents where callback = ?1 and state in (select value from json_each(?2))
		union
		select child from debts where target = ?1
		order by 1`
	ids, err := d.strings(ctx, q, target, list{&states})
	if err != nil {
		return nil, fmt.Errorf("cannot list who works for %s: %w", target, err)
	}
	return ids, nil
}

// Sending notes that debts are about to be sent: from here on they may have arrived.
func (d *DB) Sending(ctx context.Context, debts []Debt) error {
	const q = `
		update debts
		set sent = 1
		where child = ? and seq = ?`
	err := d.change(ctx, func(tx *sql.Tx) error {
		for _, b := range debts {
			if _, err := tx.ExecContext(ctx, q, b.Child, b.Seq); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot note what is sent: %w", err)
	}
	return nil
}

// Postpone puts off debts that were not delivered, and says why.
func (d *DB) Postpone(ctx context.Context, debts []Debt, due time.Time, why string) error {
	const later = `
		update debts
		set due = ?, tries = tries + 1
		where child = ? and seq = ?`
	const said = `
		update callbacks
		set error = ?
		where child = ?`
	err := d.change(ctx, func(tx *sql.Tx) error {
		for _, b := range debts {
			if _, err := tx.ExecContext(ctx, later, due.UnixMilli(), b.Child, b.Seq); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, said, why, b.Child); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot put off what is to be told: %w", err)
	}
	return nil
}

// Notified takes away debts that have arrived. What is left of a child that has
// reached the bound by that is held, and its callback says so.
func (d *DB) Notified(ctx context.Context, debts []Debt, at time.Time, b Bound) error {
	const gone = `
		delete from debts
		where child = ? and seq = ?`
	const told = `
		update callbacks
		set notified_seq = max(notified_seq, ?1), notified_at = ?2, unasked = unasked + ?3,
			error = case when unasked + ?3 >= ?4 and exists (select 1 from debts where child = ?6) then ?5 end
		where child = ?6`
	err := d.change(ctx, func(tx *sql.Tx) error {
		for _, debt := range debts {
			res, err := tx.ExecContext(ctx, gone, debt.Child, debt.Seq)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, told, debt.Seq, at.UnixMilli(), n, b.Most, b.Held, debt.Child)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot note what was told: %w", err)
	}
	return nil
}

// Asked notes that a client has spoken to an agent: its line, down from it and one
// up, may tell anew.
func (d *DB) Asked(ctx context.Context, id string) error {
	const any = `
		select child
		from callbacks
		where unasked > 0
		limit 1`
	const q = `
		update callbacks
		set unasked = 0, error = null
		where unasked > 0 and (target = ?1 or child = ?1
			or child in (select id from agents where parent <> '' and instr(ancestors, ?1) > 0))`
	some, err := d.strings(ctx, any)
	if err == nil && len(some) > 0 {
		_, err = d.exec(ctx, q, id)
	}
	if err != nil {
		return fmt.Errorf("cannot note a client's message to %s: %w", id, err)
	}
	return nil
}

// Callback reads what became of an agent's debts.
func (d *DB) Callback(ctx context.Context, child string) (c Callback, err error) {
	const q = `
		select last_seq, notified_seq, notified_at, error
		from callbacks
		where child = ?`
	stmt, err := d.read.stmt(ctx, q)
	if err == nil {
		err = stmt.QueryRowContext(ctx, child).Scan(&c.LastSeq, &c.NotifiedSeq, maybe{&c.NotifiedAt}, &c.Error)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Callback{}, fmt.Errorf("cannot read the callbacks of agent %s: %w", child, err)
	}
	return c, nil
}

// OwedBy reads the debts of a child to a target up to a number, be they due or not.
func (d *DB) OwedBy(ctx context.Context, child, target string, upTo int64) ([]Debt, error) {
	const q = `
		select child, seq, target, tries, sent, body
		from debts
		where child = ? and target = ? and seq <= ?
		order by seq`
	debts, err := d.debts(ctx, q, child, target, upTo)
	if err != nil {
		return nil, fmt.Errorf("cannot read what agent %s owes: %w", child, err)
	}
	return debts, nil
}
