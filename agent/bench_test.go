package agent_test

import (
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

// BenchmarkExit is from the kill of an agent's process to the state that
// get_info shows. Target: 20 ms.
func BenchmarkExit(b *testing.B) {
	w := newWorld(b)
	a := w.run(agent.RunRequest{})
	for b.Loop() {
		w.send(a.AgentID, act(do("signal", "KILL")))
		for w.info(a.AgentID).State != agent.Exited {
		}
		b.StopTimer()
		_, err := w.sup.Resurrect(b.Context(), w.who, a.AgentID, nil)
		must(b, err)
		b.StartTimer()
	}
	b.ReportMetric(20, "target-ms")
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
		}))
	}
}
