package agent

import (
	"context"
	"time"

	"pi-mcp/store"
)

// peerLook is the pause between two looks at agents that other servers keep alive:
// nobody here is told when they change.
const peerLook = time.Second

// A vigil is what one wait knows. While nothing happens it is all that the wait
// holds, so it keeps marks and no rows. It belongs to the waiting goroutine.
type vigil struct {
	sup   *Supervisor
	group string
	ids   []string // each once
	marks []mark   // of the agents in ids
	all   bool     // each of them must satisfy, else one

	peers <-chan time.Time         // when to look at distant agents; nil while there was none
	beat  <-chan time.Time         // may be nil
	tell  func(satisfied, all int) // called for each beat
	last  func(context.Context)    // called before each look that may be returned
}

// A mark is what a vigil keeps of an agent.
type mark struct {
	after     int64 // the settles that are not news; anySettle when it was not named
	satisfied bool
	distant   bool // alive, with another server
}

// anySettle marks an agent of which any idleness will do.
const anySettle = -1

// satisfies reports whether a row is what the wait is for.
func (m mark) satisfies(row *store.Agent) bool {
	switch {
	case row.Removing || !row.Living:
		return true
	case m.after != anySettle:
		return row.SettleCount > m.after
	}
	return State(row.State) == Idle
}

// wait looks at the agents whenever one has changed, until what it waits for is
// so or timeout has passed. It returns their rows, in order and all of one moment,
// and whether it was so in that moment: what was idle may be active again before
// the texts are read, and then the wait goes on.
//
// Rows have the beginning of LastText only. That of an agent that is no more has
// its ID and Removing, and nothing else.
func (v *vigil) wait(ctx context.Context, timeout time.Duration) (rows []store.Agent, done bool, err error) {
	w := v.sup.waiters.add(v.ids)
	defer v.sup.waiters.drop(w)
	late := time.NewTimer(timeout)
	defer late.Stop()
	if err := v.begin(ctx); err != nil {
		return nil, false, err
	}
	for over := false; ; {
		if v.done() || over {
			v.last(ctx)
			rows, err := v.look(ctx, v.ids, maxWaitText+1) // one more tells where to cut
			if err != nil || v.done() || over {
				return rows, v.done(), err
			}
		}
		var ids []string
		if ids, over, err = v.pause(ctx, w, late.C); err != nil {
			return nil, false, err
		}
		if _, err := v.look(ctx, ids, 0); err != nil {
			return nil, false, err
		}
	}
}

// begin is the first look, which every agent must be there for.
func (v *vigil) begin(ctx context.Context) error {
	rows, err := v.look(ctx, v.ids, 0)
	for i := range rows {
		if rows[i].Removing {
			return noSuch(rows[i].ID)
		}
	}
	return err
}

// pause returns the agents to look at next as soon as there are any, or over when
// time is up.
func (v *vigil) pause(ctx context.Context, w *waiter, late <-chan time.Time) (ids []string, over bool, err error) {
	if v.peers == nil && len(v.distant()) > 0 {
		v.peers = time.Tick(peerLook)
	}
	for {
		select {
		case <-w.wake:
			return v.sup.waiters.take(w), false, nil
		case <-v.peers:
			return v.distant(), false, nil
		case <-v.beat:
			v.tell(v.satisfied(), len(v.ids))
		case <-late:
			return nil, true, nil
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-v.sup.ctx.Done():
			return nil, false, ErrStopping
		}
	}
}

// look reads some of the agents and marks them.
func (v *vigil) look(ctx context.Context, ids []string, text int) ([]store.Agent, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.sup.some(ctx, v.group, ids, text)
	if ctx.Err() != nil {
		return nil, ctx.Err() // SQLite has another name for it
	}
	if err != nil {
		return nil, err
	}
	seen := make(map[string]*store.Agent, len(rows))
	for i := range rows {
		seen[rows[i].ID] = &rows[i]
	}
	for i, id := range v.ids {
		if row, m := seen[id], &v.marks[i]; row != nil {
			m.satisfied = m.satisfies(row)
			m.distant = row.Living && row.Owner != v.sup.cfg.Store.Owner()
		}
	}
	return rows, nil
}

// distant are the agents that have to be looked at unasked. One that satisfies
// already is looked at again in the end.
func (v *vigil) distant() (ids []string) {
	for i, m := range v.marks {
		if m.distant && !m.satisfied {
			ids = append(ids, v.ids[i])
		}
	}
	return ids
}

func (v *vigil) satisfied() (n int) {
	for _, m := range v.marks {
		if m.satisfied {
			n++
		}
	}
	return n
}

func (v *vigil) done() bool {
	n := v.satisfied()
	return n == len(v.ids) || n > 0 && !v.all
}

// some reads agents, in the order of ids. What is no more is a tombstone.
func (s *Supervisor) some(ctx context.Context, group string, ids []string, text int) ([]store.Agent, error) {
	rows, err := s.cfg.Store.Some(ctx, group, ids, text)
	if err == nil && s.orphaned(rows) {
		if err = s.adopt(ctx); err == nil {
			rows, err = s.cfg.Store.Some(ctx, group, ids, text)
		}
	}
	if err != nil {
		return nil, err
	}
	found := make(map[string]int, len(rows))
	for i := range rows {
		found[rows[i].ID] = i
	}
	all := make([]store.Agent, len(ids))
	for i, id := range ids {
		if at, ok := found[id]; ok {
			all[i] = rows[at]
		} else {
			all[i] = store.Agent{ID: id, Removing: true}
		}
	}
	return all, nil
}

// orphaned reports whether the server that a row names as its owner is dead.
func (s *Supervisor) orphaned(rows []store.Agent) bool {
	asked := map[string]bool{s.cfg.Store.Owner(): true}
	for i := range rows {
		owner := rows[i].Owner
		if !rows[i].Living || asked[owner] {
			continue
		}
		asked[owner] = true
		if _, alive := s.cfg.Store.OwnerPID(owner); !alive {
			return true
		}
	}
	return false
}
