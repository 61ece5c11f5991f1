package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
)

// defaultWait is below the minute after which many clients give up a call.
const defaultWait = 45

var waitTool = tool{
	name: "wait", title: "Wait for agents", reads: true,
	description: "Wait until an agent is idle or has no process any more, and return states and last answers. When the time is up it returns what there is: call it again. " +
		"An agent in after must have ended one more run than that, so that a run which is already over is not missed; run, resurrect and send_message return the number. Giving up the call changes nothing. " +
		"An agent that waits for others gets 14 KiB at most, in which their texts have equal shares; get_info has more of each.",
	args: map[string]arg{
		"until":           {enum: []string{string(agent.Any), string(agent.All)}, fallback: agent.Any},
		"after":           from(0),
		"timeout_seconds": {min: new(0.0), max: new(3600.0), fallback: defaultWait},
	},
}

type waitIn struct {
	AgentIDs       []string         `json:"agent_ids" jsonschema:"1 to 256 agents, as run or list returned them"`
	Until          *agent.Until     `json:"until,omitempty" jsonschema:"return for the first of them, or when all of them are done"`
	After          map[string]int64 `json:"after,omitempty" jsonschema:"by agent id, the settle_count that is known already"`
	TimeoutSeconds *int64           `json:"timeout_seconds,omitempty" jsonschema:"how long to wait at most; 0 only looks"`
}

func (s *Server) wait(ctx context.Context, req *mcp.CallToolRequest, who agent.Caller, in waitIn) (agent.WaitResult, error) {
	seconds := int64(defaultWait)
	if in.TimeoutSeconds != nil {
		seconds = *in.TimeoutSeconds
	}
	ask := agent.WaitRequest{
		IDs: in.AgentIDs, Until: or(in.Until), After: in.After, Timeout: time.Duration(seconds) * time.Second,
	}
	if token := req.Params.GetProgressToken(); token != nil {
		beat := time.NewTicker(s.cfg.Progress)
		defer beat.Stop()
		ask.Beat, ask.Tell = beat.C, progress(ctx, req.Session, token, ask.Timeout)
	}
	r, err := s.sup.Wait(ctx, who, ask)
	fitWait(r.Agents)
	if who.Agent != "" {
		fitOwnWait(&r)
	}
	return r, err
}

// progress returns what tells a client that its wait goes on, as seconds of those
// it may last. A client that cannot be told is one that is going, which the call
// hears of by itself.
func progress(ctx context.Context, to *mcp.ServerSession, token any, most time.Duration) func(satisfied, all int) {
	began := time.Now()
	return func(satisfied, all int) {
		_ = to.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: time.Since(began).Seconds(), Total: most.Seconds(),
			Message: fmt.Sprintf("%d of %d agents are done", satisfied, all),
		})
	}
}

// fitWait cuts texts and errors of many agents, so that they fit into one result.
func fitWait(all []agent.Waited) {
	fit(all, 5<<20, func(a *agent.Waited) *string { return a.LastAssistantText })
	fit(all, 2<<20, func(a *agent.Waited) *string { return a.LastError })
}

// maxOwnWait bounds the JSON of what an agent's wait returns, in bytes: pi leaves the
// middle out of a longer tool result.
const maxOwnWait = 14 << 10

// fitOwnWait does the same for an agent that waits. States and counters are all kept.
func fitOwnWait(r *agent.WaitResult) {
	const twice = 2 // fit counts what a text takes in both forms of a result
	room := roomOf(*r, func(a *agent.Waited) { a.LastAssistantText, a.LastError = nil, nil })
	fit(r.Agents, twice*room/4, func(a *agent.Waited) *string { return a.LastError })
	room = roomOf(*r, func(a *agent.Waited) { a.LastAssistantText = nil })
	fit(r.Agents, twice*room, func(a *agent.Waited) *string { return a.LastAssistantText })
}

// roomOf is what an agent's wait leaves for what strip takes out of it.
func roomOf(r agent.WaitResult, strip func(*agent.Waited)) int {
	r.Agents = slices.Clone(r.Agents)
	for i := range r.Agents {
		strip(&r.Agents[i])
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return maxOwnWait - len(text)
}

// fit cuts one text of each agent, where it has one, to most bytes in all.
func fit(all []agent.Waited, most int, of func(*agent.Waited) *string) {
	var at []*string
	var texts []string
	for i := range all {
		if text := of(&all[i]); text != nil {
			at, texts = append(at, text), append(texts, *text)
		}
	}
	if !cutAll(texts, most) {
		return
	}
	for i, text := range texts {
		*at[i] = text
	}
}
