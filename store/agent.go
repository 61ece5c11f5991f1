package store

import "time"

// An Agent is one row. The fields down to Descendants are set by Insert and not by
// Save, which writes all the rest. Times are kept to the millisecond and come back
// in UTC; an empty list comes back nil.
type Agent struct {
	ID      string // a UUIDv7: later agents have greater ids
	Group   string
	Parent  string // "": made by a client
	Depth   int    // 0: made by a client
	Created time.Time

	Ancestors   []string // from the one that a client made down to Parent
	Account     string   // the group whose limits it counts against beside its own
	Ceiling     *Ceiling // nil: nothing bounds it
	Descendants int64    // that it has ever had; Insert of another one adds to it

	Name, Provider, Model string
	ContextSize           int64 // tokens; 0: the model's own
	Thinking, Cwd         string
	Write, Read, Denied   []string // host paths
	Spellings             []string // of those, as they were asked for through symlinks
	Callback              string   // the agent that is told; "": none
	Network               string   // what it may reach, as text; "": nothing was said
	ModelHost             string   // host:port of its model; "": not known yet

	State  string // a name that the caller gives meaning to
	Resume string // state to go back to if a start fails; "": a first start
	Ready  bool   // it has been ready at least once

	// Living says that a process may exist, Removing that the row is a tombstone,
	// which only Any and Adopt find. A row that is either has the Owner who answers
	// for it (empty: the one who writes the row); any other row has none, whatever
	// is written.
	Living, Removing bool
	Owner            string
	PID              int
	PIDStart         uint64 // with Boot, tells the process from later ones of the same PID
	Boot             string

	Updated, LastActivity   time.Time
	RippedAt, ResurrectedAt *time.Time

	Messages    Messages
	Tokens      Tokens
	Cost        float64 // US dollars
	SettleCount int64
	Dialogs     int64
	LastDialog  string

	// LastText is kept as given: its bound is the caller's. LastTextBytes is the
	// length of the text that it was cut from. List leaves LastText nil.
	LastText      *string
	LastTextBytes int64

	LastError                              *string
	ExitCode                               *int
	Retries, Rips, SelfExits               int64
	StdoutBytes, StderrBytes, SessionBytes int64
	BytesOut, BytesIn                      int64 // through the network, of all its processes
}

// Messages counts the messages of a session.
type Messages struct{ User, Assistant, ToolCalls int64 }

// Tokens counts what was sent to and received from the model.
type Tokens struct{ Input, Output, CacheRead, CacheWrite, Total int64 }

// A Ceiling is what an agent may at most be given: what its parent was.
type Ceiling struct {
	Write, Read, Denied []string
	Network             string
}
