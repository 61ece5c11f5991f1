package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"pi-mcp/cage/cgroup"
	"pi-mcp/store"
)

// groups are the control groups of agents. They count processes, which the kernel's
// resource limit does, too, but not for root; and memory and CPU, which nothing else
// does. There is one for each start, named after the owner and the agent.
type groups struct {
	owner   string // of the agents of this server
	log     *slog.Logger
	root    bool               // nothing else counts the processes
	control *cgroup.Controller // nil when no group can be made
	lacks   string             // why they do not count processes, and what to do; "" when they do
	limits  cgroup.Limits      // of every agent, as far as this machine can enforce them
	short   []string           // why not the others that were asked for, and what to do
}

// findGroups finds out what can be made. It makes nothing.
func findGroups(owner string, l Limits, log *slog.Logger) groups {
	g := groups{owner: owner, log: log, root: os.Geteuid() == 0}
	wanted := l.perGroup()
	processes := cgroup.Limits{Processes: wanted.Processes}
	wanted.Processes = 0
	control, err := cgroup.Detect()
	if err != nil {
		g.lacks = err.Error()
		if wanted != (cgroup.Limits{}) {
			g.short = []string{g.lacks}
		}
		return g
	}
	g.control = control
	if _, lacks := control.Trim(cgroup.Limits{Processes: 1}); len(lacks) > 0 {
		g.lacks, processes = lacks[0], cgroup.Limits{}
	}
	g.limits, g.short = control.Trim(wanted)
	g.limits.Processes = processes.Processes
	return g
}

// check reports whether agents can have the limits.
func (g groups) check(l Limits) error {
	if err := l.check(); err != nil {
		return err
	}
	if g.root && g.lacks != "" && l.Processes != NoLimit {
		return fmt.Errorf("this server runs as root, whose processes only a control group limits: %s; "+
			"or run the server as an ordinary user, or pass --max-processes none to go without", g.lacks)
	}
	return nil
}

// make makes the group of an agent that is about to start. It returns nil where none
// is needed. An ordinary user's processes are counted without one, too.
func (g groups) make(agent string) (*cgroup.Group, error) {
	if g.control == nil || g.limits == (cgroup.Limits{}) {
		return nil, nil
	}
	group, err := g.control.New(g.owner, agent, g.limits)
	if err == nil || g.root {
		return group, err
	}
	level := slog.LevelInfo
	if g.limits.MemoryBytes > 0 || g.limits.CPUPercent > 0 {
		level = slog.LevelWarn
	}
	g.log.Log(context.Background(), level, "only the resource limits hold for an agent", "agent", agent, "err", err)
	return nil, nil
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
