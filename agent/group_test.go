package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/agent"
	"pi-mcp/cage"
	"pi-mcp/cage/cgroup"
)

// enforced reports whether this machine can hold agents to l.
func enforced(l cgroup.Limits) bool {
	control, err := cgroup.Detect()
	if err != nil {
		return false
	}
	_, lacks := control.Trim(l)
	return len(lacks) == 0
}

// An agent that meets the limit on processes is told once, and goes on.
func TestProcessesTold(t *testing.T) {
	w, log := budgeted(t, func(c *agent.Config) { c.Limits.Processes = cage.FewestProcesses })
	if w.refused() {
		return
	}
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, holding(do("spawn", []string{"/bin/sh", "-c", bomb}), do("wait_file", "/tmp/tried")))
	told := 0
	if counted() { // the kernel's resource limit does not tell
		told = 1
		w.until(a.AgentID, "the message", func(i agent.Info) bool { return i.QueueLength == 1 })
	}
	must(t, os.WriteFile(w.tmp(a.AgentID, "go"), nil, 0o600))
	w.settled(a.AgentID, int64(1+told))
	if said := w.said(a.AgentID); strings.Count(said, `"text":"[pi-mcp] Your sandbox was refused`) != told {
		t.Errorf("it was told: %s", said)
	}
	if n := log.count("an agent has met a limit"); n != told {
		t.Errorf("the log has %d lines about it", n)
	}
	if i := w.info(a.AgentID); i.Lifecycle.Rips > 0 || i.LastError != nil {
		t.Errorf("%+v", i)
	}
}

// tooMuch takes 200 MB of memory, if it may.
const tooMuch = "head -c 200000000 /dev/zero | tail -c 200000000 | wc -c > /tmp/taken"

// What an agent starts can together not have more memory than the limit. The agent
// hears of it, once. Where the machine cannot enforce that, the log says so.
func TestMemoryLimit(t *testing.T) {
	for name, limit := range map[string]int64{"held": 128 << 20, "the control: none": agent.NoLimit} {
		t.Run(name, func(t *testing.T) {
			w, log := budgeted(t, func(c *agent.Config) { c.Limits.Memory = limit })
			can := enforced(cgroup.Limits{MemoryBytes: 1 << 20})
			if short := log.count("without a limit that was asked for", "memory") > 0; short != (limit != agent.NoLimit && !can) {
				t.Errorf("the log says that there is no limit: %t", short)
			}
			held := limit != agent.NoLimit && can
			a := w.run(agent.RunRequest{})
			spawn, wait := sh(tooMuch)
			w.send(a.AgentID, holding(spawn, wait))
			want := "200000000\n"
			if held {
				w.until(a.AgentID, "the message", func(i agent.Info) bool { return i.QueueLength == 1 })
				want = "0\n"
			}
			must(t, os.WriteFile(w.tmp(a.AgentID, "go"), nil, 0o600))
			w.settled(a.AgentID, 1)
			taken, err := os.ReadFile(w.tmp(a.AgentID, "taken"))
			must(t, err)
			if string(taken) != want {
				t.Errorf("it could use %q bytes, not %q", taken, want)
			}
			if n := log.count("an agent has met a limit", "128 MiB"); (n == 1) != held {
				t.Errorf("the log has %d lines about it", n)
			}
		})
	}
}

// A pi that is killed for want of memory exits with the limit's name as the reason,
// during a start as well.
func TestMemoryExit(t *testing.T) {
	w, _ := budgeted(t, func(c *agent.Config) { c.Limits.Memory = 128 << 20 })
	// The kernel takes the process with the highest score: here it is pi.
	spawn, wait := sh("echo 1000 > /proc/$PPID/oom_score_adj && " + tooMuch)
	w.script("large", map[string]any{"start": []any{spawn, wait}})
	held := enforced(cgroup.Limits{MemoryBytes: 1 << 20})
	res, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "large"})
	if says := err != nil && strings.Contains(err.Error(), "--max-memory"); says != held || !held && err != nil {
		t.Errorf("the start: %+v, %v", res, err)
	}
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(record("agent_start"), spawn, wait, record("agent_settled", "aborted", false)))
	if !held { // it has what it needs
		w.settled(a.AgentID, 1)
		return
	}
	i := w.untilState(a.AgentID, agent.Exited)
	if i.LastError == nil || !strings.Contains(*i.LastError, "128 MiB (--max-memory)") {
		t.Errorf("it exited because of %v", i.LastError)
	}
	// The control: one that is killed by somebody else.
	a = w.run(agent.RunRequest{})
	w.send(a.AgentID, act(record("agent_start"), do("signal", "KILL")))
	if i := w.untilState(a.AgentID, agent.Exited); i.LastError == nil || strings.Contains(*i.LastError, "memory") {
		t.Errorf("it exited because of %v", i.LastError)
	}
}

// The time of CPUs is limited in the agent's group.
func TestCPULimit(t *testing.T) {
	for name, limit := range map[string]int64{"held": 50, "the control: none": agent.NoLimit} {
		t.Run(name, func(t *testing.T) {
			w, log := budgeted(t, func(c *agent.Config) { c.Limits.CPU = limit })
			w.run(agent.RunRequest{})
			can := enforced(cgroup.Limits{CPUPercent: 50})
			if short := log.count("without a limit that was asked for", "CPU") > 0; short != (limit != agent.NoLimit && !can) {
				t.Errorf("the log says that there is no limit: %t", short)
			}
			set := 0
			for _, dir := range groupDirs(t, w.db.Owner()) {
				for file, want := range map[string]string{"cpu.max": "50000 100000", "cpu.cfs_quota_us": "50000"} {
					text, _ := os.ReadFile(filepath.Join(dir, file))
					if strings.TrimSpace(string(text)) == want {
						set++
					}
				}
			}
			if (set == 1) != (limit != agent.NoLimit && can) {
				t.Errorf("it is set in %d groups", set)
			}
		})
	}
}

// A grep that would take all memory for one line fails, and says so.
func TestGrepMemory(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	for size, want := range map[int64]int{1 << 20: 1, 2 << 30: 2} { // the first is the control
		must(t, os.WriteFile(w.tmp(a.AgentID, "line"), nil, 0o600))
		must(t, os.Truncate(w.tmp(a.AgentID, "line"), size)) // -a: zeros are text, and no line ends
		res, err := w.sup.GrepTmp(t.Context(), w.who, a.AgentID, []string{"-a", "needle"}, "", "line")
		must(t, err)
		if res.ExitCode != want || strings.Contains(res.Stderr, "memory exhausted") != (want == 2) {
			t.Errorf("a line of %d bytes: exit code %d, %q", size, res.ExitCode, res.Stderr)
		}
	}
}
