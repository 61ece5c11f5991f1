package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pi-mcp/agent"
	"pi-mcp/cage"
	"pi-mcp/store"
)

// A remove and a resurrection at once: one of them wins, and what the row says is
// so. No process is left without a row.
func TestRemoveAgainstResurrect(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		a := w.run(agent.RunRequest{})
		_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
		must(t, err)
		var wg sync.WaitGroup
		var removed, revived error
		wg.Go(func() { _, removed = w.sup.Remove(t.Context(), w.who, a.AgentID, false) })
		wg.Go(func() { _, revived = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil) })
		wg.Wait()
		_, err = w.sup.Info(t.Context(), w.who, a.AgentID)
		if gone := errors.Is(err, agent.ErrNotFound); gone != (removed == nil) {
			t.Fatalf("gone %v, remove: %v, resurrect: %v", gone, removed, revived)
		}
		if removed != nil {
			must(t, revived)
			w.remove(a.AgentID)
		}
	}
	w.empty()
}

// A run that is cancelled, at whatever moment, leaves nothing.
func TestCancelledRuns(t *testing.T) {
	w := newWorld(t)
	w.remove(w.run(agent.RunRequest{}).AgentID) // what is found out once is known
	for n := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
		res, err := w.sup.Run(ctx, w.who, agent.RunRequest{})
		cancel()
		if err == nil { // it was faster
			w.remove(res.AgentID)
		}
	}
	w.empty()
}

// A pi that dies of its first prompt takes the run with it, and the error says how.
func TestPromptKillsPi(t *testing.T) {
	w := newWorld(t)
	w.script("fragile", map[string]any{"on": map[string]any{"prompt": []any{do("stderr", "cannot bear it\n"), do("exit", 9)}}})
	prompt := "hello"
	for range 10 {
		_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "fragile", Prompt: &prompt})
		if err == nil {
			t.Fatal("the run succeeded")
		}
	}
	w.empty()
}

// A resurrection starts from the row as it is, not as it was when it was asked for.
func TestClaimIsFresh(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(do("turn", "said")))
	w.settled(a.AgentID, 1)
	for range 3 {
		_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
		must(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _, _ = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil) })
		}
		wg.Wait()
	}
	if i := w.info(a.AgentID); i.Lifecycle.Rips != 3 || i.Lifecycle.Retries != 3 || i.SettleCount != 1 || *i.LastAssistantText != "said" {
		t.Errorf("after three rounds: %+v", i)
	}
}

// A server that runs on takes over the agents of one that died beside it.
func TestDeadPeer(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	row := w.row(a.AgentID)
	row.State, row.Living, row.Owner = "idle", true, "00000000-0000-4000-8000-000000000000"
	must(t, w.db.Save(t.Context(), row))
	back, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err)
	if back.State != agent.Idle {
		t.Errorf("resurrected: %+v", back.Info)
	}
}

// The background lap does the same without being asked.
func TestLapAdopts(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.RefreshPause = time.Millisecond })
	a := w.run(agent.RunRequest{})
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	row := w.row(a.AgentID)
	row.State, row.Living, row.Owner = "active", true, "00000000-0000-4000-8000-000000000000"
	must(t, w.db.Save(t.Context(), row))
	w.untilState(a.AgentID, agent.Exited)
}

// A settle that is read before the answer of the prompt that caused it ends the
// turn all the same.
func TestSettleBeforeAnswer(t *testing.T) {
	w := newWorld(t)
	w.script("hasty", map[string]any{"on": map[string]any{"prompt": []any{
		record("agent_start"), record("agent_settled", "aborted", false), do("respond", do("data", do("disposition", "started"))),
	}}})
	a := w.run(agent.RunRequest{Model: "hasty"})
	w.send(a.AgentID, "hello")
	if i := w.settled(a.AgentID, 1); i.SettleCount != 1 {
		t.Errorf("%d settles", i.SettleCount)
	}
}

// Numbers and text that come late are still taken.
func TestLateFacts(t *testing.T) {
	w := newWorld(t)
	w.script("slow", map[string]any{"on": map[string]any{
		"get_session_stats":       []any{do("wait_file", "/tmp/go"), do("default", true)},
		"get_last_assistant_text": []any{do("wait_file", "/tmp/go"), do("default", true)},
	}})
	a := w.run(agent.RunRequest{Model: "slow"})
	w.send(a.AgentID, act(do("turn", "late")))
	w.settled(a.AgentID, 1) // without them
	must(t, os.WriteFile(filepath.Join(w.files.Paths(a.AgentID).Tmp, "go"), nil, 0o600))
	w.until(a.AgentID, "the text", func(i agent.Info) bool {
		return i.LastAssistantText != nil && *i.LastAssistantText == "late" && i.Messages.Assistant == 1
	})
}

// An abort that pi does not survive says so in words.
func TestAbortKillsPi(t *testing.T) {
	w := newWorld(t)
	w.script("fragile", map[string]any{"on": map[string]any{"abort": []any{do("exit", 9)}}})
	a := w.run(agent.RunRequest{Model: "fragile"})
	w.send(a.AgentID, act(record("agent_start"), do("wait_file", "/tmp/never")))
	w.untilState(a.AgentID, agent.Active)
	_, err := w.sup.Abort(t.Context(), w.who, a.AgentID, true)
	_, dead := errors.AsType[*agent.StateError](err)
	_, late := errors.AsType[*agent.PiError](err)
	if !dead && !late {
		t.Errorf("abort: %v", err)
	}
}

// What cages and pi are run from cannot be granted, not even by the first run.
func TestProgramsAreProtected(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, "pi")
	_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Grants: cage.Grants{Write: []string{dir}}})
	if e, ok := errors.AsType[*agent.ArgError](err); !ok || e.Arg != "write" || !strings.Contains(e.Reason, dir) {
		t.Errorf("write grant over pi: %v", err)
	}
	w.empty()
}

// A directory that cannot be deleted does not keep the server from starting.
func TestForeignDirectory(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	w.sup.Close()
	row := w.row(a.AgentID)
	row.Removing, row.Owner = true, "00000000-0000-4000-8000-000000000000"
	must(t, w.db.Save(t.Context(), row))
	must(t, os.Remove(filepath.Join(w.dir, "agents", a.AgentID, ".pi-mcp")))
	must(t, w.db.Close())
	w.open()
	if _, err := w.db.Any(t.Context(), a.AgentID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the row: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "agents", a.AgentID)); err != nil {
		t.Errorf("a directory without our marker was touched: %v", err)
	}
}

// A prompt that pi took and that never becomes a run is given up by the lap.
func TestForgottenPrompt(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.RefreshPause = time.Millisecond })
	w.script("forgets", map[string]any{"on": map[string]any{"prompt": []any{do("respond", do("data", do("disposition", "started")))}}})
	a := w.run(agent.RunRequest{Model: "forgets"})
	if sent := w.send(a.AgentID, "hello"); sent.State != agent.Active {
		t.Errorf("sent: %+v", sent)
	}
	w.untilState(a.AgentID, agent.Idle)
}

// F56: answers that a lap misses change nothing. That laps go by is seen by another
// agent, whose prompt three of them give up.
func TestF56MissedAnswers(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.RefreshPause = time.Millisecond })
	w.script("forgets", map[string]any{"on": map[string]any{"prompt": []any{do("respond", do("data", do("disposition", "started")))}}})
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(record("agent_start"), do("touch", "/tmp/on"), do("hang", true)))
	waitFile(t, filepath.Join(w.files.Paths(a.AgentID).Tmp, "on"))
	other := w.run(agent.RunRequest{Model: "forgets"})
	w.send(other.AgentID, "hello")
	w.untilState(other.AgentID, agent.Idle)
	if i := w.info(a.AgentID); i.State != agent.Active || i.LastError != nil || i.SettleCount != 0 {
		t.Errorf("after laps without an answer: %s, %d settles, %v", i.State, i.SettleCount, i.LastError)
	}
}

// An abort does not wait for ever for a prompt that pi is busy with.
func TestAbortUnansweredPrompt(t *testing.T) {
	w := newWorld(t)
	w.script("ponders", map[string]any{"on": map[string]any{"prompt": []any{do("touch", "/tmp/asked"), do("wait_file", "/tmp/never")}}})
	a := w.run(agent.RunRequest{Model: "ponders"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go w.sup.Send(ctx, w.who, a.AgentID, "hello", agent.FollowUp, false)
	waitFile(t, filepath.Join(w.files.Paths(a.AgentID).Tmp, "asked"))
	res, err := w.sup.Abort(t.Context(), w.who, a.AgentID, true)
	must(t, err)
	if !res.Aborted {
		t.Errorf("abort: %+v", res)
	}
}

// A failure belongs to the run that failed, also when the next begins at once.
func TestFailureOfItsOwnRun(t *testing.T) {
	w := newWorld(t)
	w.script("slow", map[string]any{"on": map[string]any{
		"get_last_assistant_text": []any{do("wait_file", "/tmp/go"), do("default", true)},
	}})
	a := w.run(agent.RunRequest{Model: "slow"})
	failed := do("role", "assistant", "content", []any{}, "stopReason", "error", "errorMessage", "no credit")
	w.send(a.AgentID, act(record("agent_start"), record("message_end", "message", failed), record("agent_settled", "aborted", false),
		record("agent_start"), do("touch", "/tmp/second"), do("wait_file", "/tmp/never")))
	tmp := w.files.Paths(a.AgentID).Tmp
	waitFile(t, filepath.Join(tmp, "second"))
	must(t, os.WriteFile(filepath.Join(tmp, "go"), nil, 0o600))
	i := w.until(a.AgentID, "the first settle", func(i agent.Info) bool { return i.SettleCount == 1 })
	if i.LastError == nil || *i.LastError != "no credit" || i.State != agent.Active {
		t.Errorf("after the failed run: %s, last error %v", i.State, i.LastError)
	}
}

// Many calls that meet the agents of a dead server at once all take them over, or
// wait for the one that does.
func TestManyAdopt(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.RefreshPause = time.Millisecond })
	a := w.run(agent.RunRequest{})
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	for range 10 {
		row := w.row(a.AgentID)
		row.State, row.Living, row.Owner = "idle", true, "00000000-0000-4000-8000-000000000000"
		must(t, w.db.Save(t.Context(), row))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// The real pi's compile cache is filled once, shown read-only to every agent, and
// filled again when somebody has deleted it.
func TestCompileCache(t *testing.T) {
	path, err := filepath.Abs(realPi)
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no real pi: run make setup: %v", err)
	}
	w := newWorld(t, func(c *agent.Config) { c.Pi, c.Provider, c.Model = path, "bench", "bench-model" })
	realProvider(t, filepath.Join(w.dir, "host"))
	for range 2 {
		a := w.run(agent.RunRequest{})
		files, err := filepath.Glob(filepath.Join(w.dir, "state", "compile-cache", "*", "*", "*"))
		must(t, err)
		if len(files) < 10 {
			t.Errorf("the cache has %d files", len(files))
		}
		if !w.mounted("/opt/pi-mcp/compile-cache ro") {
			t.Error("the agent does not have the cache, or can write to it")
		}
		w.remove(a.AgentID)
		must(t, os.RemoveAll(filepath.Join(w.dir, "state", "compile-cache")))
	}
}

// mounted reports whether a cage of this world has this in its mount table.
func (w *world) mounted(what string) bool {
	w.t.Helper()
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	must(w.t, err)
	for _, name := range tables {
		mounts, _ := os.ReadFile(name) // the process may have ended
		if strings.Contains(string(mounts), w.dir+"/agents/") && strings.Contains(string(mounts), what) {
			return true
		}
	}
	return false
}
