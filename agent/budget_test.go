package agent_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pi-mcp/agent"
)

// A journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex // protects text
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// count tells how many lines hold all words.
func (j *journal) count(words ...string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
lines:
	for line := range strings.Lines(j.text.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		n++
	}
	return n
}

// until waits for so many lines.
func (j *journal) until(t testing.TB, n int, words ...string) {
	t.Helper()
	eventually(t, func() bool { return j.count(words...) >= n }, func() string {
		return fmt.Sprintf("the log never had %d lines with %q:\n%s", n, words, j.text.String())
	})
}

// budgeted is a world whose agents are looked at all the time, and its log.
func budgeted(t *testing.T, settings ...func(*agent.Config)) (*world, *journal) {
	t.Helper()
	j := &journal{}
	return newWorld(t, append([]func(*agent.Config){func(c *agent.Config) {
		c.CheckPause = 5 * time.Millisecond
		c.Limits.Tmp, c.Limits.TmpFiles, c.Limits.Session = 8<<20, 1000, 1<<20
		c.Log = slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}}, settings...)...), j
}

// patient has agents be told, and then left alone.
func patient(c *agent.Config) { c.CheckGrace = 1 << 30 }

// holding is a run that lasts until the file /tmp/go is there, after what is to be
// done first.
func holding(first ...map[string]any) string {
	all := append([]map[string]any{record("agent_start")}, first...)
	return act(append(all, do("wait_file", "/tmp/go"), record("agent_settled", "aborted", false))...)
}

// sh is an action that starts a shell, and one that waits for it.
func sh(script string) (spawn, wait map[string]any) {
	return do("spawn", []string{"/bin/sh", "-c", script + "; : > /tmp/tried"}), do("wait_file", "/tmp/tried")
}

func (w *world) tmp(id string, name string) string {
	return filepath.Join(w.files.Paths(id).Tmp, name)
}

// said is what an agent's session holds.
func (w *world) said(id string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.files.Paths(id).Session)
	must(w.t, err)
	return string(text)
}

// An agent that goes over a limit in a run is told once, and again only after it was
// below. Its run goes on, and other agents hear nothing.
func TestBudgetTold(t *testing.T) {
	w, log := budgeted(t, patient)
	other := w.run(agent.RunRequest{})
	w.send(other.AgentID, holding())
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, holding())
	for round := 1; round <= 3; round++ {
		must(t, os.WriteFile(w.tmp(a.AgentID, "large"), make([]byte, 9<<20), 0o600))
		w.until(a.AgentID, fmt.Sprintf("message %d", round), func(i agent.Info) bool { return i.QueueLength == round })
		must(t, os.Remove(w.tmp(a.AgentID, "large")))
		log.until(t, round, "below its limits", a.AgentID)
	}
	for _, id := range []string{a.AgentID, other.AgentID} {
		must(t, os.WriteFile(w.tmp(id, "go"), nil, 0o600))
		w.settled(id, 1)
	}
	told := func() int { return strings.Count(w.said(a.AgentID), `"text":"[pi-mcp] You are over a limit`) }
	eventually(t, func() bool { return told() == 3 }, func() string { return "it was told: " + w.said(a.AgentID) })
	if said := w.said(other.AgentID); strings.Contains(said, "[pi-mcp]") {
		t.Errorf("another agent was told: %s", said)
	}
	if n := log.count("told an agent"); n != 3 {
		t.Errorf("the log has %d lines about it", n)
	}
}

// One that stays over it is stopped, with the reason, and can be brought back when
// there is room again. Other agents go on.
func TestBudgetRip(t *testing.T) {
	many := "mkdir /tmp/d; cd /tmp/d; i=0; while [ $i -lt 1100 ]; do : > f$i; i=$((i+1)); done"
	for _, tc := range []struct {
		name, script, flag, undo string
	}{
		{"tmp", "head -c 9437184 /dev/zero > /tmp/d", "--max-tmp", "tmp/d"},
		{"home", "head -c 9437184 /dev/zero > $HOME/d", "--max-tmp", "home/d"},
		{"pi's directory", "head -c 9437184 /dev/zero > /pi-agent/d", "--max-tmp", "pi/d"},
		{"a closed directory", "mkdir /tmp/d; exec 3> /tmp/d/f; chmod 000 /tmp/d; head -c 9437184 /dev/zero >&3", "--max-tmp", "tmp/d"},
		{"a /tmp that cannot be listed", "head -c 9437184 /dev/zero > /tmp/d; chmod 300 /tmp", "--max-tmp", "tmp/d"},
		{"files", many, "--max-tmp-files", "tmp/d"},
		{"session", `head -c 1100000 /dev/zero | tr '\0' '\n' >> /agent_session.jsonl`, "--max-session", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, log := budgeted(t, func(c *agent.Config) { c.CheckGrace = 1 })
			other := w.run(agent.RunRequest{})
			a := w.run(agent.RunRequest{})
			spawn, wait := sh(tc.script)
			w.send(a.AgentID, holding(spawn, wait))
			i := w.untilState(a.AgentID, agent.Ripped)
			p := w.files.Paths(a.AgentID)
			if i.Lifecycle.Rips != 1 || i.Lifecycle.SelfExits != 0 || i.Lifecycle.RippedAt == nil || i.LastError == nil {
				t.Fatalf("a stopped agent: %+v", i)
			}
			if why := *i.LastError; !strings.Contains(why, "over the limit "+tc.flag+":") || strings.Contains(why, p.Tmp) != (tc.undo != "") {
				t.Errorf("stopped because of %q", why)
			}
			if told := log.count("told an agent", a.AgentID); told != 1 {
				t.Errorf("it was told %d times", told)
			}
			w.send(other.AgentID, act(do("turn", "unaffected")))
			w.settled(other.AgentID, 1)
			if tc.undo == "" {
				return
			}
			must(t, os.RemoveAll(filepath.Join(p.Dir, tc.undo)))
			_, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
			must(t, err)
			w.send(a.AgentID, act(do("turn", "back")))
			if i := w.settled(a.AgentID, 1); i.LastError != nil {
				t.Errorf("after it was brought back: %q", *i.LastError)
			}
		})
	}
}

// Far over the limit there is no grace, but for the one message.
func TestBudgetFar(t *testing.T) {
	w, log := budgeted(t, patient)
	a := w.run(agent.RunRequest{})
	spawn, wait := sh("head -c 25165824 /dev/zero > /tmp/large")
	w.send(a.AgentID, holding(spawn, wait))
	w.untilState(a.AgentID, agent.Ripped)
	if told := log.count("told an agent"); told != 1 {
		t.Errorf("it was told %d times", told)
	}
}

// An idle agent, of which something goes on in the background, is stopped without a
// word: a message would be a run.
func TestBudgetIdle(t *testing.T) {
	w, log := budgeted(t, patient)
	a := w.run(agent.RunRequest{})
	script := "until [ -e /tmp/go ]; do sleep 0.01; done; head -c 9437184 /dev/zero > /tmp/large"
	w.send(a.AgentID, act(do("spawn", []string{"/bin/sh", "-c", script}), do("turn", "done")))
	i := w.settled(a.AgentID, 1)
	must(t, os.WriteFile(w.tmp(a.AgentID, "go"), nil, 0o600))
	end := w.untilState(a.AgentID, agent.Ripped)
	if end.Messages != i.Messages || log.count("told an agent") > 0 || end.LastError == nil {
		t.Errorf("%+v, before that %+v", end, i)
	}
}

// An agent that has no process is left alone, whatever it keeps.
func TestBudgetExited(t *testing.T) {
	w, log := budgeted(t)
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(record("agent_start"), do("signal", "KILL")))
	before := w.untilState(a.AgentID, agent.Exited)
	must(t, os.WriteFile(w.tmp(a.AgentID, "large"), make([]byte, 9<<20), 0o600))
	clock := w.run(agent.RunRequest{}) // it goes over, too, and is found
	must(t, os.WriteFile(w.tmp(clock.AgentID, "large"), make([]byte, 9<<20), 0o600))
	w.untilState(clock.AgentID, agent.Ripped)
	after := w.info(a.AgentID)
	if after.State != agent.Exited || after.Lifecycle != before.Lifecycle || *after.LastError != *before.LastError {
		t.Errorf("%+v, before that %+v", after, before)
	}
	if n := log.count("limit", a.AgentID); n > 0 {
		t.Errorf("the log has %d lines about it", n)
	}
}

// Without limits, or without looks, nothing is over anything.
func TestBudgetNone(t *testing.T) {
	for name, set := range map[string]func(*agent.Config){
		"limits": func(c *agent.Config) { c.Limits.Tmp, c.Limits.TmpFiles = agent.NoLimit, agent.NoLimit },
		"looks":  func(c *agent.Config) { c.CheckPause = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w, log := budgeted(t, set)
			a := w.run(agent.RunRequest{})
			spawn, wait := sh("head -c 25165824 /dev/zero > /tmp/large")
			w.send(a.AgentID, act(spawn, wait, do("turn", "filled")))
			w.settled(a.AgentID, 1)
			if name == "limits" { // the one that is left shows that it was looked at
				must(t, os.WriteFile(w.files.Paths(a.AgentID).Session, make([]byte, 2<<20), 0o600))
				i := w.untilState(a.AgentID, agent.Ripped)
				if !strings.Contains(*i.LastError, "--max-session") {
					t.Errorf("stopped because of %q", *i.LastError)
				}
			}
			if log.count("--max-tmp") > 0 {
				t.Error("a limit that there is not was met")
			}
		})
	}
}

// Whatever ends an agent during a look, nothing is left.
func TestBudgetEnds(t *testing.T) {
	w, _ := budgeted(t, func(c *agent.Config) { c.CheckPause = time.Nanosecond })
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			res, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{})
			if err != nil {
				t.Error(err)
				return
			}
			if n%2 == 0 {
				if _, err := w.sup.Rip(t.Context(), w.who, res.AgentID, false); err != nil {
					t.Error(err)
				}
			}
			if n%4 < 2 {
				if _, err := w.sup.Remove(t.Context(), w.who, res.AgentID, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.sup.Close()
	w.noProcess()
}
