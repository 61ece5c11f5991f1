package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pi-mcp/store"
)

// Bounds of one wait.
const (
	maxWaited   = 256       // agents
	maxOwn      = 64        // agents, of one that waits itself: what fits into a tool result of pi's
	maxWaitText = 8 << 10   // bytes of one last_assistant_text
	maxWait     = time.Hour // timeout_seconds
)

// Until says how many agents a wait is for.
type Until string

const (
	Any Until = "any" // the first that satisfies
	All Until = "all" // all of them at the same time
)

// removed is the state in which a wait shows an agent that is no more. No row has
// it.
const removed State = "removed"

// A WaitRequest says what to wait for. An agent that After names satisfies when
// its settle count is greater or it is not alive; any other, when it is idle or
// not alive.
type WaitRequest struct {
	IDs     []string // 1 to 256; one that is named twice counts once
	Until   Until    // default Any
	After   map[string]int64
	Timeout time.Duration // at most an hour; 0 looks and returns

	// Tell is called, on the waiting goroutine, for each value of Beat. Both may be
	// nil.
	Beat <-chan time.Time
	Tell func(satisfied, all int)
}

// A WaitResult is how the agents were at the end of a wait, in the order in which
// they were named.
type WaitResult struct {
	Done     bool     `json:"done" jsonschema:"what was waited for is so"`
	TimedOut bool     `json:"timed_out" jsonschema:"it is not so, and the time is up; the agents go on"`
	Agents   []Waited `json:"agents"`
}

// A Waited is an agent in a WaitResult.
type Waited struct {
	ID                     string  `json:"id"`
	State                  State   `json:"state" jsonschema:"active, idle, ripped, exited or, if it is no more, removed"`
	SettleCount            int64   `json:"settle_count" jsonschema:"runs that ended so far; pass it in after to wait for the next"`
	LastAssistantText      *string `json:"last_assistant_text"`
	LastAssistantTextBytes int64   `json:"last_assistant_text_bytes" jsonschema:"length of the whole text; the text here is cut at 8192 bytes, or before if not all fit; get_info has more of it"`
	LastError              *string `json:"last_error"`
}

// Wait returns when agents are as req wants them, or with what there is when the
// time is up. When ctx ends before, nothing has changed and nothing is left; the
// same goes for the end of the server, which is ErrStopping.
func (s *Supervisor) Wait(ctx context.Context, who Caller, req WaitRequest) (WaitResult, error) {
	if s.ctx.Err() != nil {
		return WaitResult{}, ErrStopping
	}
	def(&req.Until, Any)
	if err := checkWait(req); err != nil {
		return WaitResult{}, err
	}
	if err := s.checkWaiter(ctx, who, req.IDs); err != nil {
		return WaitResult{}, err
	}
	v := s.vigil(who, req)
	c := s.cover(who, v.ids)
	v.last = c.look
	rows, done, err := v.wait(ctx, req.Timeout)
	c.end(err == nil)
	if err != nil {
		return WaitResult{}, err
	}
	res := WaitResult{Done: done, TimedOut: !done, Agents: make([]Waited, len(rows))}
	for i := range rows {
		res.Agents[i] = waitedOf(&rows[i])
	}
	return res, nil
}

// checkWait checks what needs no store.
func checkWait(req WaitRequest) error {
	switch n := len(req.IDs); {
	case n == 0:
		return &ArgError{"agent_ids", "must name at least one agent"}
	case n > maxWaited:
		return &ArgError{"agent_ids", fmt.Sprintf("has %d agents, the limit is %d: name fewer", n, maxWaited)}
	case req.Until != Any && req.Until != All:
		return &ArgError{"until", fmt.Sprintf("must be %s or %s", Any, All)}
	case req.Timeout < 0 || req.Timeout > maxWait:
		return &ArgError{"timeout_seconds", fmt.Sprintf("must be from 0 to %.0f", maxWait.Seconds())}
	}
	for _, id := range req.IDs {
		if err := checkID("agent_ids", id); err != nil {
			return err
		}
	}
	for id, count := range req.After {
		if !slices.Contains(req.IDs, id) {
			return &ArgError{"after", fmt.Sprintf("names %.40q, which agent_ids does not: add it there or leave it out", id)}
		}
		if count < 0 {
			return &ArgError{"after", fmt.Sprintf("has %d for an agent: pass a settle_count, which is never less than 0", count)}
		}
	}
	return nil
}

// checkWaiter refuses a caged agent's wait for what it may not see, and for an agent
// that is active at least until the wait is over.
func (s *Supervisor) checkWaiter(ctx context.Context, who Caller, ids []string) error {
	if !who.caged() {
		return nil
	}
	if n := len(ids); n > maxOwn {
		return &ArgError{"agent_ids", fmt.Sprintf("has %d agents, the limit for an agent is %d: name fewer", n, maxOwn)}
	}
	if slices.Contains(ids, who.Agent) {
		return &ArgError{"agent_ids", "names yourself: you are active as long as you wait; leave that id out"}
	}
	self, err := s.cfg.Store.Any(ctx, who.Agent)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if slices.Contains(self.Ancestors, id) {
			return &ArgError{"agent_ids", fmt.Sprintf("names %s, which started you or an agent above you and may be waiting for you: leave that id out and end your turn instead", id)}
		}
		if _, err := s.row(ctx, who, id); errors.Is(err, ErrNotFound) {
			return noSuch(id)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func noSuch(id string) error {
	return &ArgError{"agent_ids", fmt.Sprintf("no such agent: %s; list shows the ones there are", id)}
}

// vigil is what a checked request comes to.
func (s *Supervisor) vigil(who Caller, req WaitRequest) *vigil {
	v := &vigil{
		sup: s, group: who.Group, all: req.Until == All, beat: req.Beat, tell: req.Tell,
		ids: make([]string, 0, len(req.IDs)), marks: make([]mark, 0, len(req.IDs)),
	}
	for _, id := range req.IDs {
		if slices.Contains(v.ids, id) {
			continue
		}
		m := mark{after: anySettle}
		if after, named := req.After[id]; named {
			m.after = after
		}
		v.ids, v.marks = append(v.ids, id), append(v.marks, m)
	}
	return v
}

// waitedOf is a row as a wait shows it.
func waitedOf(row *store.Agent) Waited {
	if row.Removing {
		return Waited{ID: row.ID, State: removed}
	}
	w := Waited{
		ID: row.ID, State: State(row.State).Public(), SettleCount: row.SettleCount,
		LastAssistantTextBytes: row.LastTextBytes, LastError: row.LastError,
	}
	if row.LastText != nil {
		// A copy, so that what was cut off is not kept.
		w.LastAssistantText = new(strings.Clone(clip(*row.LastText, maxWaitText)))
	}
	return w
}
