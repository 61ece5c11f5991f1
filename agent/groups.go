package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"pi-mcp/cage"
	"pi-mcp/cage/cgroup"
	"pi-mcp/store"
)

// groups are the control groups that count the processes of agents. The kernel's
// resource limit does that, too, but not for root. There is one for each start, named
// after the owner and the agent.
type groups struct {
	owner   string // of the agents of this server
	log     *slog.Logger
	root    bool               // nothing else counts the processes
	control *cgroup.Controller // nil when no group can
	lacks   string             // why, and what to do
}

// findGroups finds out what can be made. It makes nothing.
func findGroups(owner string, log *slog.Logger) groups {
	g := groups{owner: owner, log: log, root: os.Geteuid() == 0}
	control, err := cgroup.Detect()
	if err != nil {
		g.lacks = err.Error()
		return g
	}
	if _, lacks := control.Trim(cgroup.Limits{Processes: 1}); len(lacks) > 0 {
		g.lacks = lacks[0]
		return g
	}
	g.control = control
	return g
}

// check reports whether agents can have the limit on processes.
func (g groups) check(limit int64) error {
	switch {
	case limit == NoLimit:
		return nil
	case limit < cage.FewestProcesses:
		return fmt.Errorf("--max-processes %d is too low: at least %d, or none for no limit", limit, cage.FewestProcesses)
	case g.root && g.control == nil:
		return fmt.Errorf("this server runs as root, whose processes only a control group limits: %s; "+
			"or run the server as an ordinary user, or pass --max-processes none to go without", g.lacks)
	}
	return nil
}

// make makes the group of an agent that is about to start. It returns nil where none
// is needed. An ordinary user's processes are counted without one, too.
func (g groups) make(agent string, limit int64) (*cgroup.Group, error) {
	if limit == NoLimit || g.control == nil {
		return nil, nil
	}
	group, err := g.control.New(g.owner, agent, cgroup.Limits{Processes: limit})
	if err != nil && !g.root {
		g.log.Info("only the resource limit counts an agent's processes", "agent", agent, "err", err)
		return nil, nil
	}
	return group, err
}

// sweepWait bounds how long groups may take to go, with what is left in them.
const sweepWait = 2 * time.Second

// remove removes a group, which may be nil, after the end of its cage.
func (g groups) remove(group *cgroup.Group) {
	if group == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepWait)
	defer cancel()
	if err := group.Remove(ctx); err != nil {
		g.log.Warn("cannot remove an agent's control group", "err", err)
	}
}

// sweep ends what dead servers left in the groups of their agents, and removes those.
func (g groups) sweep(ctx context.Context, rows []store.Agent) {
	if g.control == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepWait)
	defer cancel()
	swept := map[string]bool{g.owner: true} // its agents are alive
	for _, row := range rows {
		if swept[row.Owner] {
			continue
		}
		swept[row.Owner] = true
		if err := g.control.Sweep(ctx, row.Owner); err != nil {
			g.log.Warn("cannot remove the control groups of a dead server", "owner", row.Owner, "err", err)
		}
	}
}

// perProcess is what the kernel limits for each process of an agent. There, zero is
// no limit.
func (l Limits) perProcess() cage.Rlimits {
	r := cage.Rlimits{Processes: l.Processes, FileSize: max(l.FileSize, 1)}
	if l.Processes == NoLimit {
		r.Processes = 0
	}
	if l.FileSize == NoLimit {
		r.FileSize = 0
	}
	return r
}
