package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"pi-mcp/agent"
	"pi-mcp/store"
)

// BenchmarkSend is a message to an idle agent, call to answer, in the domain.
func BenchmarkSend(b *testing.B) {
	w := newWorld(b)
	w.script("takes", map[string]any{"on": map[string]any{
		"prompt": []any{do("respond", do("data", do("disposition", "handled")))},
	}})
	a := w.run(agent.RunRequest{Model: "takes"})
	for b.Loop() {
		w.send(a.AgentID, "hello")
	}
}

// BenchmarkExit is from the end of an agent's process to the state that get_info
// shows, at the median. Target: 20 ms. The moment of the end is taken by the fake
// pi, as the time of the last file that it makes.
func BenchmarkExit(b *testing.B) {
	w := newWorld(b)
	a := w.run(agent.RunRequest{})
	last := filepath.Join(w.files.Paths(a.AgentID).Tmp, "last")
	var took []time.Duration
	for b.Loop() {
		w.send(a.AgentID, act(do("touch", "/tmp/last"), do("signal", "KILL")))
		w.untilState(a.AgentID, agent.Exited)
		seen := time.Now()
		info, err := os.Stat(last)
		must(b, err)
		took = append(took, seen.Sub(info.ModTime()))
		must(b, os.Remove(last))
		_, err = w.sup.Resurrect(b.Context(), w.who, a.AgentID, nil)
		must(b, err)
	}
	b.ReportMetric(ms(median(took)), "exit-ms")
	b.ReportMetric(20, "target-ms")
}

// BenchmarkCallback is from the settle of a child to the prompt that its idle parent
// has accepted, at the median. Target: 10 ms. The first moment is taken by the fake pi
// of the child, right before it writes the settle, the second by that of the parent,
// as the times of files that they make.
func BenchmarkCallback(b *testing.B) {
	w := newWorld(b, func(c *agent.Config) { c.Limits.Callbacks = agent.NoLimit })
	w.script("takes", map[string]any{"on": map[string]any{"prompt": []any{
		do("respond", do("data", do("disposition", "started"))), do("touch", "/tmp/accepted"), do("default", true),
	}}})
	p := w.run(agent.RunRequest{Model: "takes"})
	c := w.child(p.AgentID)
	settle, accepted := filepath.Join(w.files.Paths(c.AgentID).Tmp, "settle"), filepath.Join(w.files.Paths(p.AgentID).Tmp, "accepted")
	var took []time.Duration
	var n int64
	for b.Loop() {
		n++
		w.send(c.AgentID, act(record("agent_start"), do("touch", "/tmp/settle"), record("agent_settled", "aborted", false)))
		eventually(b, func() bool { return w.callback(c.AgentID).NotifiedSeq == n }, func() string { return "it was never told" })
		w.untilState(p.AgentID, agent.Idle)
		began, err := os.Stat(settle)
		must(b, err)
		ended, err := os.Stat(accepted)
		must(b, err)
		took = append(took, ended.ModTime().Sub(began.ModTime()))
	}
	b.ReportMetric(ms(median(took)), "callback-ms")
	b.ReportMetric(10, "target-ms")
}

// BenchmarkList is the newest 200 of 10,000 agents, in store and domain. Target:
// 5 ms.
func BenchmarkList(b *testing.B) {
	w := newWorld(b)
	fill(b, w.db, 10_000)
	for b.Loop() {
		res, err := w.sup.List(b.Context(), w.who, agent.ListRequest{Limit: 200})
		must(b, err)
		if res.Count != 200 || res.Total != 10_000 {
			b.Fatal(res.Count, res.Total)
		}
	}
	b.ReportMetric(5, "target-ms")
}

// BenchmarkOpen is the start of a server over 10,000 stored agents. Target: 300 ms.
func BenchmarkOpen(b *testing.B) {
	w := newWorld(b)
	fill(b, w.db, 10_000)
	for b.Loop() {
		w.sup.Close()
		must(b, w.db.Close())
		w.open()
	}
	b.ReportMetric(300, "target-ms")
}

func fill(b *testing.B, db *store.DB, n int) {
	b.Helper()
	text := "an answer of a usual length, as it stands in a row"
	for range n {
		must(b, db.Insert(b.Context(), store.Agent{
			ID: uuid.Must(uuid.NewV7()).String(), Group: "default", Name: "fake/plain", Provider: "fake", Model: "plain",
			State: "ripped", Ready: true, Created: time.Now(), Updated: time.Now(), LastActivity: time.Now(),
			Write: []string{"/home/user/project"}, LastText: &text, LastTextBytes: int64(len(text)),
		}, 0))
	}
}
