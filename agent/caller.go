package agent

import (
	"context"
	"slices"

	"pi-mcp/store"
)

// A Caller is who asks. The transport makes one for each request, and every
// method of Supervisor takes it: there is no ambient identity.
//
// A client sees and acts on the agents of its group. A caged agent acts on its own
// descendants in its group, and reads those and itself. What a caller may not see
// does not exist for it.
type Caller struct {
	Group string // whose agents it sees; required
	Agent string // the caged agent that calls, "" for a client
}

// caged reports whether an agent asks.
func (c Caller) caged() bool { return c.Agent != "" }

// acts reports whether the caller may act on an agent of its group.
func (c Caller) acts(ancestors []string) bool {
	return !c.caged() || slices.Contains(ancestors, c.Agent)
}

// row returns an agent that the caller may see.
func (s *Supervisor) row(ctx context.Context, who Caller, id string) (store.Agent, error) {
	if err := checkID("agent_id", id); err != nil {
		return store.Agent{}, err
	}
	row, err := s.cfg.Store.Agent(ctx, who.Group, id)
	if err == nil && !who.acts(row.Ancestors) && id != who.Agent && !s.cfg.GroupScope {
		return store.Agent{}, ErrNotFound
	}
	return row, err
}

// mayAct refuses what a caller may see and not act on, and what it asks of itself.
func mayAct(who Caller, row *store.Agent) error {
	switch {
	case who.caged() && row.ID == who.Agent:
		return &ArgError{"agent_id", "is your own: an agent cannot stop, remove, resurrect or send messages to itself; name one that you started"}
	case !who.acts(row.Ancestors):
		return ErrNotFound
	}
	return nil
}
