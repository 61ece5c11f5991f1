package agent_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/agent"
	"pi-mcp/cage"
	"pi-mcp/cage/cgroup"
)

// bomb starts 200 processes that stay, if it can, writes a line to /tmp/forks after
// each, and says in /tmp/tried that it is done. The loop has a shell of its own, which
// ends with the first fork that fails.
const bomb = `(n=0; while [ $n -lt 200 ]; do sleep 1000 & n=$((n+1)); echo $n >> /tmp/forks; done) 2> /tmp/refusal; : > /tmp/tried`

// A fork bomb stops at the limit, the agent stays usable, and a rip leaves nothing of
// it. With a higher limit more of it runs: how much more is also up to what else the
// machine has to do, which may be under a limit of its own.
func TestF18ForkBomb(t *testing.T) {
	for _, tc := range []struct {
		name        string
		limit       int64
		least, most int // forks that succeed
	}{
		{"held", cage.FewestProcesses, 10, cage.FewestProcesses},
		{"the control: a higher limit", 400, cage.FewestProcesses + 1, 200},
		{"the control: none", agent.NoLimit, cage.FewestProcesses + 1, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(c *agent.Config) { c.Limits.Processes = tc.limit })
			if tc.limit != agent.NoLimit && w.refused() {
				return
			}
			a := w.run(agent.RunRequest{})
			w.send(a.AgentID, act(do("spawn", []string{"/bin/sh", "-c", bomb}), do("wait_file", "/tmp/tried"), do("turn", "tried")))
			w.settled(a.AgentID, 1)
			forks, err := os.ReadFile(w.tmp(a.AgentID, "forks"))
			must(t, err)
			if n := strings.Count(string(forks), "\n"); n < tc.least || n > tc.most {
				refusal, _ := os.ReadFile(w.tmp(a.AgentID, "refusal"))
				t.Errorf("%d processes were started, not %d to %d: %q", n, tc.least, tc.most, refusal)
			}
			if len(w.processes()) == 0 {
				t.Error("nothing of it runs: the rip proves nothing")
			}
			if limited, made := tc.limit != agent.NoLimit && counted(), len(groupDirs(t, w.db.Owner())); limited != (made > 0) {
				t.Errorf("there are %d groups of the agent; limited by one: %t", made, limited)
			}
			_, err = w.sup.Rip(t.Context(), w.who, a.AgentID, false)
			must(t, err)
			if left := w.processes(); len(left) > 0 {
				t.Errorf("after the rip: %v", left)
			}
			w.noGroup(w.db.Owner())
		})
	}
}

// A group goes with its process, however the start or the process ends, and the next
// start of the same agent has one again.
func TestGroupsGo(t *testing.T) {
	w := newWorld(t)
	w.script("dies", map[string]any{"start": []any{do("exit", 1)}})
	if _, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "dies"}); err == nil {
		t.Error("a pi that ends at once was started")
	}
	w.noGroup(w.db.Owner())
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(record("agent_start"), do("signal", "KILL")))
	w.untilState(a.AgentID, agent.Exited)
	w.noGroup(w.db.Owner())
	_, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err)
	if counted() && len(groupDirs(t, w.db.Owner())) == 0 {
		t.Error("the control: the resurrected agent has no group")
	}
	w.sup.Close()
	w.noGroup(w.db.Owner())
}

// What a dead server left in the group of an agent ends when the agent is taken over.
// The groups of other owners stay.
func TestDeadOwnersGroups(t *testing.T) {
	const dead, other = "00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000001"
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	if !counted() {
		w.noGroup(w.db.Owner()) // agents do without, and leave nothing to sweep
		return
	}
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	control, err := cgroup.Detect()
	must(t, err)
	var group *cgroup.Group
	for _, owner := range []string{other, dead} {
		group, err = control.New(owner, a.AgentID, cgroup.Limits{Processes: 10})
		must(t, err)
		t.Cleanup(func() { must(t, control.Sweep(t.Context(), owner)) })
	}
	left := exec.Command("/usr/bin/sleep", "1000")
	must(t, group.Enter(left.Start)) // of version 2 the group stays empty: its descriptor is not handed on

	row := w.row(a.AgentID)
	row.State, row.Living, row.Owner = "idle", true, dead
	must(t, w.db.Save(t.Context(), row))
	_, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err)
	if group.FD() < 0 {
		if err := left.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("what was left in the group ended with %v", err)
		}
	} else {
		must(t, left.Process.Kill())
	}
	w.noGroup(dead)
	if len(groupDirs(t, other)) == 0 {
		t.Error("the group of another owner is gone")
	}
}

// No file of an agent gets larger than the limit.
func TestFileSize(t *testing.T) {
	const size = 1 << 20
	for name, limit := range map[string]int64{"held": size, "the control: none": agent.NoLimit} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *agent.Config) { c.Limits.FileSize = limit })
			a := w.run(agent.RunRequest{})
			write := `head -c 3145728 /dev/zero > /tmp/large; : > /tmp/tried`
			w.send(a.AgentID, act(do("spawn", []string{"/bin/sh", "-c", write}), do("wait_file", "/tmp/tried"), do("turn", "tried")))
			w.settled(a.AgentID, 1)
			info, err := os.Stat(filepath.Join(w.files.Paths(a.AgentID).Tmp, "large"))
			must(t, err)
			if got, want := info.Size(), min(3*size, limit); got != want {
				t.Errorf("the file has %d bytes, not %d", got, want)
			}
		})
	}
}

// Fewer processes than a cage takes are refused before anything is made.
func TestTooFewProcesses(t *testing.T) {
	for _, limit := range []int64{0, cage.FewestProcesses - 1} {
		w := newWorld(t, func(c *agent.Config) { c.Limits.Processes = limit })
		_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{})
		if err == nil || !strings.Contains(err.Error(), "--max-processes") {
			t.Errorf("with a limit of %d: %v", limit, err)
		}
		w.empty()
	}
}

// counted reports whether a control group counts the processes of agents here.
func counted() bool {
	control, err := cgroup.Detect()
	if err != nil {
		return false
	}
	_, lacks := control.Trim(cgroup.Limits{Processes: 1})
	return len(lacks) == 0
}

// uncounted reports whether nothing counts the processes of agents here: the kernel's
// resource limit does not count root's.
func uncounted() bool { return os.Geteuid() == 0 && !counted() }

// refused reports whether nothing counts processes here, and fails when a start with a
// limit on them is not refused then, or leaves anything.
func (w *world) refused() bool {
	w.t.Helper()
	if !uncounted() {
		return false
	}
	_, err := w.sup.Run(w.t.Context(), w.who, agent.RunRequest{})
	if err == nil || !strings.Contains(err.Error(), "checking its limits") || !strings.Contains(err.Error(), "--max-processes none") {
		w.t.Errorf("root's agent was started with a limit that nothing holds: %v", err)
	}
	w.empty()
	return true
}

// noGroup fails when a group of an owner's agents is left.
func (w *world) noGroup(owner string) {
	w.t.Helper()
	if left := groupDirs(w.t, owner); len(left) > 0 {
		w.t.Errorf("groups are left: %v", left)
	}
}

// groupDirs lists the groups of an owner's agents, wherever they are.
func groupDirs(t testing.TB, owner string) (all []string) {
	t.Helper()
	// Groups of others come and go during the walk.
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "pi-mcp-"+owner+".") {
			all = append(all, path)
		}
		return nil
	})
	return all
}
