package agent

import (
	"fmt"

	"pi-mcp/artifacts"
)

// A verdict is what follows from a look.
type verdict int

const (
	nothing verdict = iota
	tell
	rip
)

// idleLooks is how many looks in a row find an idle agent over a limit before it is
// stopped. It is not told: that would be a run, which costs money, and what fills the
// disk may be a program that it left running.
const idleLooks = 2

// A budget remembers what has become of an agent that is over a limit.
type budget struct {
	told  bool // since it was last below its limits
	looks int  // in a row that found it over them; since it was told, if it was
}

// A finding is what a look comes to.
type finding struct {
	over, far bool // over a limit, and over twice the limit
	active    bool
	running   bool // a run is on, which a message would reach
}

// judge takes one look at an agent. One with a run on is told, once, and stopped when
// it stays over for more than grace further looks, or is far over at the next. Below
// the limits all is forgotten.
func (b *budget) judge(f finding, grace int) verdict {
	if !f.over {
		*b = budget{}
		return nothing
	}
	b.looks++
	switch {
	case f.running && !b.told:
		*b = budget{told: true}
		return tell
	case !f.active && b.looks >= idleLooks, f.active && (f.far && b.told || b.looks > grace):
		return rip
	}
	return nothing
}

// An excess is a limit that an agent is over.
type excess struct {
	flag   string // the limit's
	what   string // what there is and what may be
	remedy string // what the agent can do
	files  bool   // what has to be deleted are files, so that the agent can go on
	far    bool   // more than twice the limit
}

// excess returns the first limit that an agent is over, nil if there is none.
func (l Limits) excess(at look) *excess {
	const where = "/tmp, /home/agent and /pi-agent together hold"
	const remedy = "Delete what you do not need there now, and stop what goes on writing"
	switch u := at.usage; {
	case u.Bytes > l.Tmp:
		return &excess{
			flag: "--max-tmp", far: u.Bytes > twice(l.Tmp), remedy: remedy, files: true,
			what: fmt.Sprintf("%s %s or more, and the limit is %s", where, size(u.Bytes), size(l.Tmp)),
		}
	case u.Files > l.TmpFiles:
		return &excess{
			flag: "--max-tmp-files", far: u.Files > twice(l.TmpFiles), remedy: remedy, files: true,
			what: fmt.Sprintf("%s %d or more files and directories, and the limit is %d", where, u.Files, l.TmpFiles),
		}
	case at.session > l.Session:
		return &excess{
			flag: "--max-session", far: at.session > twice(l.Session),
			what:   fmt.Sprintf("the session file holds %s, and the limit is %s", size(at.session), size(l.Session)),
			remedy: "It only grows: say now what is done and what is left to do",
		}
	}
	return nil
}

// toAgent is what the agent is told.
func (e *excess) toAgent() string {
	return fmt.Sprintf("You are over a limit of your sandbox: %s. %s. If it stays like this, you are stopped soon.", e.what, e.remedy)
}

// toPeople says why the agent was stopped.
func (e *excess) toPeople(p artifacts.Paths) string {
	remedy := "run a new agent"
	if e.files {
		remedy = fmt.Sprintf("delete files in %s or %s", p.Tmp, p.Home)
	}
	return fmt.Sprintf("stopped over the limit %s: %s; %s, or raise the limit, before you use resurrect", e.flag, e.what, remedy)
}

// refused is what an agent is told whose processes could not all be started.
func (l Limits) refused(times int64) string {
	return fmt.Sprintf("Your sandbox was refused a process or thread %d times: %d at a time is the limit. End those that you do not need.", times, l.Processes)
}

// killed is what an agent is told that ran out of memory.
func (l Limits) killed(times int64) string {
	return fmt.Sprintf("%d processes of your sandbox were killed for want of memory: all of them together may have %s. Use less at a time.", times, size(l.Memory))
}
