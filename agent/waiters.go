package agent

import (
	"maps"
	"slices"
	"sync"
)

// waiters are the waits under way, by the agents that they are about. An agent's
// loop signals them after each write of its row.
type waiters struct {
	mu sync.Mutex // guards by, and changed of each waiter; nothing is called under it
	by map[string]map[*waiter]struct{}
}

// A waiter is one wait's place among them.
type waiter struct {
	ids     []string
	wake    chan struct{} // holds one value when changed is not empty
	changed map[string]struct{}
}

// add has a waiter signalled for each of ids from now on. What happened before is
// not signalled, so one adds itself first and looks then.
func (r *waiters) add(ids []string) *waiter {
	w := &waiter{ids: ids, wake: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]map[*waiter]struct{}{}
	}
	for _, id := range ids {
		if r.by[id] == nil {
			r.by[id] = map[*waiter]struct{}{}
		}
		r.by[id][w] = struct{}{}
	}
	return w
}

// drop undoes add.
func (r *waiters) drop(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range w.ids {
		delete(r.by[id], w)
		if len(r.by[id]) == 0 {
			delete(r.by, id)
		}
	}
}

// signal tells those that wait for an agent that its row has been written. It
// does not wait for them.
func (r *waiters) signal(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.by[id] {
		if w.changed == nil {
			w.changed = map[string]struct{}{}
		}
		w.changed[id] = struct{}{}
		select {
		case w.wake <- struct{}{}:
		default: // it has not got up since the last one
		}
	}
}

// take returns the agents that were signalled since the last take. There may be
// none after a wake: the take before it can have been a little late.
func (r *waiters) take(w *waiter) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := slices.Collect(maps.Keys(w.changed))
	w.changed = nil
	return ids
}
