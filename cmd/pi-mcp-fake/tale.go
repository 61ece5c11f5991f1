package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"pi-mcp/agent"
	"pi-mcp/store"
)

// A teller makes things up.
type teller struct{ *rand.Rand }

// A turn is what was said once, and the answer.
type turn struct{ asked, answered string }

var (
	models = [][2]string{{"deepseek", "deepseek-flash"}, {"anthropic", "claude-sonnet"}, {"openai", "gpt-5-mini"}}
	names  = []string{"fix flaky test", "review parser", "write changelog", "port to Go 1.26", "profile start-up", "triage issues"}
	turns  = []turn{
		{"Find out why the build fails.", "A missing import in parser.go; I added it and the build passes."},
		{"Add a test for empty input.", "Done. It failed before the fix and passes now."},
		{"Summarise the open issues.", "Three are about time-outs, one is a duplicate, one is a question."},
		{"Make the list faster.", "An index on (group, created) brings it from 40 ms to 2 ms."},
	}
)

// agent makes the row of agent i of n: the last is the newest.
func (t teller) agent(i, n int) (store.Agent, []turn, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return store.Agent{}, nil, err
	}
	began := time.Now().Add(-time.Duration(n-i) * 7 * time.Minute)
	ended := began.Add(time.Duration(1+t.IntN(6)) * time.Minute)
	model := models[t.IntN(len(models))]
	talk := make([]turn, 1+t.IntN(3))
	for k := range talk {
		talk[k] = turns[t.IntN(len(turns))]
	}
	said := int64(len(talk))
	last := talk[len(talk)-1].answered
	row := store.Agent{
		ID: id.String(), Group: "default", Name: names[t.IntN(len(names))], Provider: model[0], Model: model[1],
		Cwd: "/tmp", Ready: true, State: string(agent.Ripped),
		Created: began, Updated: ended, LastActivity: ended, RippedAt: &ended, Rips: 1,
		Messages: store.Messages{User: said, Assistant: said, ToolCalls: int64(t.IntN(9))},
		Tokens:   store.Tokens{Input: 900 * said, Output: 120 * said, Total: 1020 * said},
		Cost:     0.0004 * float64(said), SettleCount: said,
		LastText: &last, LastTextBytes: int64(len(last)),
	}
	if t.IntN(4) == 0 {
		why := "pi was ended by killed"
		row.State, row.LastError = string(agent.Exited), &why
		row.Rips, row.RippedAt, row.SelfExits = 0, nil, 1
	}
	return row, talk, nil
}

// session makes a session file that tells the turns.
func (t teller) session(row store.Agent, talk []turn) []byte {
	var b bytes.Buffer
	put := func(v any) { _ = json.NewEncoder(&b).Encode(v) } // maps of strings only
	at := row.Created.UTC().Format(time.RFC3339)
	put(map[string]any{"type": "session", "version": 3, "id": row.ID, "timestamp": at, "cwd": row.Cwd})
	for _, s := range talk {
		put(map[string]any{"type": "message", "timestamp": at, "message": map[string]any{"role": "user", "content": s.asked}})
		put(map[string]any{"type": "message", "timestamp": at, "message": map[string]any{"role": "assistant", "content": s.answered}})
	}
	return b.Bytes()
}

// log makes the event stream of the turns.
func (t teller) log(talk []turn) []byte {
	var b bytes.Buffer
	put := func(v any) { _ = json.NewEncoder(&b).Encode(v) }
	for _, s := range talk {
		put(map[string]any{"type": "agent_start"})
		put(map[string]any{"type": "message_end", "message": map[string]any{"role": "user", "content": s.asked}})
		put(map[string]any{"type": "message_end", "message": map[string]any{"role": "assistant", "content": s.answered}})
		put(map[string]any{"type": "agent_settled", "aborted": false})
	}
	return b.Bytes()
}
