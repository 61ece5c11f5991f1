package agent

import "fmt"

// A State says where an agent is in its life. States are stored by name, so a
// name, once released, keeps its meaning.
type State string

const (
	Starting State = "starting" // the row exists, pi has not answered yet
	Idle     State = "idle"     // pi answers; no run is on, no prompt outstanding
	Active   State = "active"   // a prompt is outstanding or a run is on
	Stopping State = "stopping" // told to end; the process may still be there
	Ripped   State = "ripped"   // no process; stopped on request
	Exited   State = "exited"   // no process; ended by itself or with its server
	Gone     State = "gone"     // no row: never stored, the end of the table
)

// Public returns the one of the four states that clients know.
func (s State) Public() State {
	if s == Starting || s == Stopping {
		return Active
	}
	return s
}

// Living reports whether a process belongs to the state, or may.
func (s State) Living() bool {
	return s == Starting || s == Idle || s == Active || s == Stopping
}

// An Event is something that happened to an agent.
type Event string

const (
	Ready       Event = "ready"        // the handshake was answered
	Prompt      Event = "prompt"       // a prompt is about to be written to pi
	Refused     Event = "refused"      // pi refused a prompt
	Handled     Event = "handled"      // pi took a prompt that starts no run
	RunStart    Event = "run_start"    // agent_start was read
	Settle      Event = "settle"       // agent_settled was read and its facts are in
	Stop        Event = "stop"         // somebody asked for the end; see Cause
	Exit        Event = "exit"         // the process and its cage are gone
	StartFailed Event = "start_failed" // the process never got as far as ready
	Resurrect   Event = "resurrect"    // a stopped agent is started again
	Lost        Event = "lost"         // the server that owned it died
)

// A Cause says who asked for a stop. It decides what the exit leads to.
type Cause string

const (
	ByNobody   Cause = ""         // the process ended by itself
	ByRip      Cause = "rip"      // a caller
	ByLimit    Cause = "limit"    // the agent went over a limit
	ByShutdown Cause = "shutdown" // the server stops
	ByRemove   Cause = "remove"   // a caller who wants everything gone
)

// Facts are what the table must know beside state and event.
type Facts struct {
	Busy   bool  // once the event is taken into account: a run is on or a prompt is outstanding
	Cause  Cause // of the stop under way
	Resume State // what a failed resurrection falls back to; "" on a first start
}

type pair struct {
	from State
	on   Event
}

// A cell is one box of the table. Exactly one of its fields decides.
type cell struct {
	to     State           // unconditionally
	quiet  State           // when not Busy; Active otherwise
	cause  map[Cause]State // by the cause of the stop
	resume bool            // Facts.Resume, or Gone on a first start
}

// table is the whole life of an agent. A pair that is not here is refused.
// doc/lifecycle.md is made from it by TestLifecyclePage.
var table = map[pair]cell{
	{Starting, Ready}:       {to: Idle},
	{Starting, Stop}:        {to: Stopping},
	{Starting, StartFailed}: {resume: true},
	{Starting, Lost}:        {resume: true},

	{Idle, Prompt}:   {to: Active},
	{Idle, RunStart}: {to: Active},
	{Idle, Stop}:     {to: Stopping},
	{Idle, Exit}:     {to: Exited},
	{Idle, Lost}:     {to: Exited},

	{Active, Prompt}:   {to: Active},
	{Active, Refused}:  {quiet: Idle},
	{Active, Handled}:  {quiet: Idle},
	{Active, RunStart}: {to: Active},
	{Active, Settle}:   {quiet: Idle},
	{Active, Stop}:     {to: Stopping},
	{Active, Exit}:     {to: Exited},
	{Active, Lost}:     {to: Exited},

	{Stopping, Exit}: {cause: map[Cause]State{
		ByRip: Ripped, ByLimit: Ripped, ByShutdown: Exited, ByRemove: Gone,
	}},
	{Stopping, Lost}: {to: Exited},

	{Ripped, Resurrect}: {to: Starting},
	{Exited, Resurrect}: {to: Starting},
}

// On returns the state that follows s when e happens, or a *MoveError.
func (s State) On(e Event, f Facts) (State, error) {
	c, ok := table[pair{s, e}]
	switch {
	case !ok:
		return s, &MoveError{From: s, On: e}
	case c.resume && f.Resume == "":
		return Gone, nil
	case c.resume:
		return f.Resume, nil
	case c.quiet != "" && f.Busy:
		return Active, nil
	case c.quiet != "":
		return c.quiet, nil
	case c.cause != nil:
		to, ok := c.cause[f.Cause]
		if !ok {
			return s, &MoveError{From: s, On: e}
		}
		return to, nil
	}
	return c.to, nil
}

// A MoveError reports an event that cannot happen in a state.
type MoveError struct {
	From State
	On   Event
}

func (e *MoveError) Error() string { return fmt.Sprintf("cannot %s while %s", e.On, e.From) }
