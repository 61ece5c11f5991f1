package agent

import (
	"context"
	"maps"

	"pi-mcp/store"
)

// A waited is what an agent knows of its children through its own wait calls. What a
// wait returns is in the session only once the turn that it belongs to has settled:
// until then it counts neither as told nor as to be told.
type waited struct {
	covered map[string]int   // children that calls under way wait for, with how many do
	taken   map[string]int64 // by child, the last debt that a call in this turn has returned
}

// waits reports whether a debt is not to be told because a wait tells it.
func (a *liveAgent) waits(d store.Debt) bool {
	return a.waited.covered[d.Child] > 0 || d.Seq <= a.waited.taken[d.Child]
}

// A cover is a wait call of a caged agent, as far as the debts of those that it waits
// for are concerned. That of a client does nothing.
type cover struct {
	waiter *liveAgent // nil: nobody who could be told
	ids    []string
	taken  map[string]int64
}

// cover begins one.
func (s *Supervisor) cover(who Caller, ids []string) *cover {
	c := &cover{ids: ids}
	if who.caged() {
		c.waiter = s.find(who.Agent)
	}
	if c.waiter != nil {
		c.waiter.tell(func() { c.waiter.cover(ids) })
	}
	return c
}

// look notes what a look at the agents, begun after it, will show the end of.
func (c *cover) look(ctx context.Context) {
	if c.waiter != nil {
		c.taken = c.waiter.sup.lastDebts(ctx, c.ids)
	}
}

// end ends it. returned says that the caller gets to see what the last look showed.
func (c *cover) end(returned bool) {
	if c.waiter == nil {
		return
	}
	if !returned {
		c.taken = nil
	}
	c.waiter.tell(func() { c.waiter.uncover(c.ids, c.taken) })
}

// cover begins a wait of this agent for others. It runs in loop.
func (a *liveAgent) cover(ids []string) {
	if a.waited.covered == nil {
		a.waited = waited{map[string]int{}, map[string]int64{}}
	}
	for _, id := range ids {
		a.waited.covered[id]++
	}
}

// uncover ends it. taken are, by child, the last debts that it has returned. It runs
// in loop.
func (a *liveAgent) uncover(ids []string, taken map[string]int64) {
	for _, id := range ids {
		if a.waited.covered[id]--; a.waited.covered[id] <= 0 {
			delete(a.waited.covered, id)
		}
	}
	if a.state == Active { // else it was not a turn that asked
		for id, seq := range taken {
			a.waited.taken[id] = max(a.waited.taken[id], seq)
		}
	}
	a.wake()
}

// waitsSettled takes the end of a turn: what its waits have returned is now in the
// session, unless it was aborted.
func (a *liveAgent) waitsSettled(aborted bool) {
	if len(a.waited.taken) == 0 {
		return
	}
	taken := maps.Clone(a.waited.taken)
	clear(a.waited.taken)
	if aborted {
		a.wake()
		return
	}
	ctx, cancel := a.sup.writing()
	defer cancel()
	var told []store.Debt
	for child, seq := range taken {
		debts, err := a.sup.cfg.Store.OwedBy(ctx, child, a.id, seq)
		if err != nil {
			a.sup.cfg.Log.Warn("cannot note what a wait has told", "agent", a.id, "err", err)
		}
		told = append(told, debts...)
	}
	a.notified(told)
}

// lastDebts returns the numbers of the newest debts of agents.
func (s *Supervisor) lastDebts(ctx context.Context, ids []string) map[string]int64 {
	last := map[string]int64{}
	for _, id := range ids {
		c, err := s.cfg.Store.Callback(ctx, id)
		if err == nil && c.LastSeq > 0 {
			last[id] = c.LastSeq
		}
	}
	return last
}
