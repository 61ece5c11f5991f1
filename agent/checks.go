package agent

import (
	"context"
	"fmt"
	"time"

	"pi-mcp/artifacts"
	"pi-mcp/cage/cgroup"
)

// checks are what becomes of the looks at one agent. They belong to its loop.
type checks struct {
	end             context.CancelFunc // of the looks; nil before the first start
	ended           chan struct{}      // closed when none is under way or to come
	budget          budget
	refused, killed notice
	reason          string // why the agent was stopped for a limit
}

// A look is what is found of an agent at one moment.
type look struct {
	usage   artifacts.Usage
	session int64 // bytes
	met     cgroup.Events
}

// check begins the looks at a process that has just answered.
func (a *liveAgent) check(p *process) {
	if a.sup.cfg.CheckPause <= 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.checks.end, a.checks.ended = cancel, make(chan struct{})
	go a.lookOn(ctx, p, a.checks.ended)
}

// close ends the looks and waits until the agent's directory is not in use any more.
func (c *checks) close() {
	if c.end != nil {
		c.end()
		<-c.ended
	}
}

// idleFactor is how much longer the pause after a look is than the look took: it
// takes a twentieth of the time at most.
const idleFactor = 19

// lookOn looks at the agent until ctx ends. It is a goroutine of the agent's, not a
// part of the background lap: a large tree must not keep others from being looked at.
func (a *liveAgent) lookOn(ctx context.Context, p *process, ended chan<- struct{}) {
	defer close(ended)
	failed := false
	for pause := a.sup.cfg.CheckPause; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		l, err := a.look(ctx, p)
		pause = max(a.sup.cfg.CheckPause, idleFactor*time.Since(began))
		if err != nil {
			if ctx.Err() == nil && !failed {
				failed = true // say it once
				a.sup.cfg.Log.Warn("cannot look at what an agent keeps on disk", "agent", a.id, "err", err)
			}
			continue
		}
		select { // not tell: loop may be waiting for the end of this
		case a.inbox <- func() { a.looked(l) }:
		case <-ctx.Done():
			return
		}
	}
}

// look looks at p. It counts files up to twice the limits: more makes no difference.
func (a *liveAgent) look(ctx context.Context, p *process) (l look, err error) {
	limits := a.sup.cfg.Limits
	l = look{session: p.dir.Sizes().Session, met: p.events()}
	if limits.Tmp != NoLimit || limits.TmpFiles != NoLimit {
		l.usage, err = p.dir.Usage(ctx, artifacts.Usage{Bytes: twice(limits.Tmp), Files: twice(limits.TmpFiles)})
	}
	return l, err
}

// twice is twice a limit.
func twice(limit int64) int64 {
	if limit > NoLimit/2 {
		return NoLimit
	}
	return 2 * limit
}

// looked takes a look. It runs in loop.
func (a *liveAgent) looked(l look) {
	if a.state != Idle && a.state != Active {
		return
	}
	limits, c := a.sup.cfg.Limits, &a.checks
	a.notice(&c.refused, l.met.Refused, limits.refused(l.met.Refused))
	a.notice(&c.killed, l.met.OOMKilled, limits.killed(l.met.OOMKilled))
	e := limits.excess(l)
	if e == nil && c.budget.told {
		a.sup.cfg.Log.Info("an agent is below its limits again", "agent", a.id)
	}
	found := finding{over: e != nil, far: e != nil && e.far, active: a.state == Active, running: a.running()}
	switch c.budget.judge(found, a.sup.cfg.CheckGrace) {
	case tell:
		a.sup.cfg.Log.Warn("told an agent that it is over a limit", "agent", a.id, "what", e.what, "flag", e.flag)
		a.steer(e.toAgent())
	case rip:
		c.reason = e.toPeople(a.sup.cfg.Artifacts.Paths(a.id))
		a.sup.cfg.Log.Warn("stopping an agent over a limit", "agent", a.id, "why", c.reason)
		a.stop(ByLimit)
	}
}

// A notice is something that an agent is told once in the life of its process.
type notice struct{ logged, told bool }

// notice logs what has happened, and tells the agent when a run is on: it is not
// woken up for it.
func (a *liveAgent) notice(n *notice, times int64, message string) {
	if times == 0 {
		return
	}
	if !n.logged {
		n.logged = true
		a.sup.cfg.Log.Warn("an agent has met a limit", "agent", a.id, "told", message)
	}
	if !n.told && a.running() {
		n.told = true
		a.steer(message)
	}
}

// running reports whether a message would be taken by the run that is on. Pi may just
// have ended it: then the message starts one, as for everybody else.
func (a *liveAgent) running() bool {
	return a.state == Active && a.turn.running && a.turn.settling == 0
}

// steer gives a message of the server's own to an agent whose run is on.
func (a *liveAgent) steer(message string) {
	a.prompt("[pi-mcp] "+message, Steer, func(_ SendResult, err error) {
		if err != nil {
			a.sup.cfg.Log.Warn("cannot tell an agent of a limit", "agent", a.id, "err", err)
		}
	})
}

// events are how often the process and what it started have met the limits of their
// group, none without one and after its removal.
func (p *process) events() cgroup.Events {
	if p.group == nil {
		return cgroup.Events{}
	}
	return p.group.Events()
}

// ended says how the process ended, once it is gone.
func (p *process) ended(stderr string) string {
	exit := p.proc.Exit()
	why := exitReason(exit, stderr)
	if p.met.OOMKilled > 0 && exit.Signal == "SIGKILL" {
		why = fmt.Sprintf("out of memory, all its processes together may have %s (--max-memory): %s", size(p.limits.Memory), why)
	}
	return why
}
