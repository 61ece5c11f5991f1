package agent

import (
	"cmp"
	"errors"
	"fmt"

	"pi-mcp/store"
)

// ErrNotFound is returned for an agent that does not exist or is not the
// caller's to see: the two look the same.
var ErrNotFound = store.ErrNotFound

// ErrStopping is returned for every call that reaches a supervisor after Close
// has begun.
var ErrStopping = errors.New("the server is stopping")

// An ArgError reports an argument that cannot be used, and what to do instead.
type ArgError struct {
	Arg    string // the argument's name on the wire
	Reason string // what is wrong and the remedy, in words for the caller
}

func (e *ArgError) Error() string { return e.Arg + ": " + e.Reason }

// A StateError reports an operation that the agent's state does not allow.
type StateError struct {
	ID     string
	State  State
	Remedy string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("agent %s is %s: %s", e.ID, e.State.Public(), e.Remedy)
}

// A ForeignError reports a live agent that another server owns.
type ForeignError struct {
	ID  string
	PID int // of that server; 0 when it is not known
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("agent %s is kept alive by another pi-mcp server (pid %d): reading it works here, anything else must be asked of that server", e.ID, e.PID)
}

// A LimitError reports a limit that a call would exceed.
type LimitError struct {
	Name   string // the flag that sets it
	Value  int64
	Remedy string // default: to stop an agent, or to have a higher limit
}

func (e *LimitError) Error() string {
	const usual = "stop or remove an agent, or start the server with a higher limit"
	return fmt.Sprintf("the limit --%s of %d is reached: %s", e.Name, e.Value, cmp.Or(e.Remedy, usual))
}

// A StartError reports a start that failed, with the end of what the program
// said. Everything the start had made is gone.
type StartError struct {
	What   string // what was to be started; "" is the agent
	Step   string // what was being done
	Reason string // why it failed
	Stderr string // the end of the program's stderr, may be empty
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("cannot start %s: %s: %s", cmp.Or(e.What, "the agent"), e.Step, e.Reason)
	if e.Stderr != "" {
		s += "\n" + e.Stderr
	}
	return s
}

// A PiError reports what pi refused or failed to do.
type PiError struct {
	Command string // what it did not take; "" when Reason says all
	Reason  string
}

func (e *PiError) Error() string {
	if e.Command == "" {
		return e.Reason
	}
	return fmt.Sprintf("pi did not take %s: %s", e.Command, e.Reason)
}
