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

// maxOwed is how many debts an agent has at a time. Beyond them the newest takes the
// place of the oldest: what an agent said last is what counts, and a target that is
// never told must not fill the database.
const maxOwed = 64

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
		select ?1, ?2, 1, 0, 1
		where exists (select 1 from agents where id = ?2 and removing = 0)
		on conflict (child) do update
		set last_seq = last_seq + 1, unasked = unasked + 1,
			error = case when unasked >= ?3 then ?4 else error end
		returning last_seq, unasked`
	const add = `
		insert into debts (child, seq, target, nth, due, hold, tries, sent, body)
		values (?, ?, ?, ?, 0, ?, 0, 0, ?)`
	const drop = `
		delete from debts
		where child = ? and seq <= ? and sent = 0`
	var seq, nth int64
	err := tx.QueryRowContext(ctx, next, child, debt.Target, b.Most, b.Held).Scan(&seq, &nth)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, add, child, seq, debt.Target, nth, until(debt.Hold), debt.Body)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, drop, child, seq-maxOwed)
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
// has not told too much before it, and nobody works for a child whose debt is held. An
// agent works for another if it will call that one back and is in one of the states,
// or has told it something that has not been heard yet; what is not told for a client's
// silence is not waited for.
const deliverable = `
		from debts d
		where d.due <= ?1 and d.nth <= ?2
			and (d.hold <= ?1
				or not exists (select 1 from agents p where p.id = d.child and p.living = 1)
				or not (exists (select 1 from agents p where p.id = d.child and p.state in (select value from json_each(?3)))
					or exists (select 1 from agents w where w.callback = d.child and w.state in (select value from json_each(?3)))
					or exists (select 1 from debts e where e.target = d.child and e.nth <= ?2)))`

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
// or have not been heard yet, the oldest first. most is as for Debts.
func (d *DB) Working(ctx context.Context, target string, states []string, most int64) ([]string, error) {
	const q = `
		select id from agents where callback = ?1 and state in (select value from json_each(?2))
		union
		select child from debts where target = ?1 and nth <= ?3
		order by 1`
	ids, err := d.strings(ctx, q, target, list{&states}, most)
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

// Notified takes away debts that have arrived. If others of a child are held by the
// bound, its callback says so.
func (d *DB) Notified(ctx context.Context, debts []Debt, at time.Time, b Bound) error {
	const gone = `
		delete from debts
		where child = ? and seq = ?`
	const told = `
		update callbacks
		set notified_seq = max(notified_seq, ?1), notified_at = ?2,
			error = case when exists (select 1 from debts where child = ?3 and nth > ?4) then ?5 end
		where child = ?3`
	err := d.change(ctx, func(tx *sql.Tx) error {
		for _, debt := range debts {
			if _, err := tx.ExecContext(ctx, gone, debt.Child, debt.Seq); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, told, debt.Seq, at.UnixMilli(), debt.Child, b.Most, b.Held); err != nil {
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
// up, may tell anew, and is not held any more.
func (d *DB) Asked(ctx context.Context, id, held string) error {
	const line = `
		select child
		from callbacks
		where unasked > 0 and (target = ?1 or child = ?1
			or child in (select id from agents where parent <> '' and instr(ancestors, ?1) > 0))`
	children, err := d.strings(ctx, line, id)
	if err == nil && len(children) > 0 {
		err = d.change(ctx, func(tx *sql.Tx) error { return anew(ctx, tx, children, held) })
	}
	if err != nil {
		return fmt.Errorf("cannot note a client's message to %s: %w", id, err)
	}
	return nil
}

func anew(ctx context.Context, tx *sql.Tx, children []string, held string) error {
	const counts = `
		update callbacks
		set unasked = 0, error = nullif(error, ?2)
		where child in (select value from json_each(?1))`
	const debts = `
		update debts
		set nth = 0
		where child in (select value from json_each(?1))`
	if _, err := tx.ExecContext(ctx, counts, list{&children}, held); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, debts, list{&children})
	return err
}

// Forget takes away what an agent has to tell, and that it ever had.
func (d *DB) Forget(ctx context.Context, child string) error {
	err := d.change(ctx, func(tx *sql.Tx) error {
		for _, q := range []string{`delete from debts where child = ?`, `delete from callbacks where child = ?`} {
			if _, err := tx.ExecContext(ctx, q, child); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot forget what agent %s has to tell: %w", child, err)
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
