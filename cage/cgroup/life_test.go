package cgroup_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"pi-mcp/cage/cgroup"
)

// A kernel without cgroup.kill: every process that the group lists, nothing else.
func TestKillOneByOne(t *testing.T) {
	root := imitate(t, machine{pureMounts, "0::/s", unified("/sys/fs/cgroup/s", "pids", "pids", "")})
	c, err := cgroup.DetectIn(root, fill(newFiles[true]...), os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	g := group(t, c, cgroup.Limits{Processes: 5})
	listed, other := exec.Command("cat"), exec.Command("cat")
	for _, cmd := range []*exec.Cmd{listed, other} {
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	// this process, one of another pid namespace, one that has ended, and listed
	put(t, g.Paths()[0]+"/cgroup.procs", fmt.Sprintf("%s0\n77777777\n%d\n", me(), listed.Process.Pid))
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	if err := listed.Wait(); err == nil {
		t.Error("the group's process is not killed")
	}
	if got := content(t, g.Paths()[0]+"/pids.max"); got != "0" {
		t.Errorf("pids.max is %s while killing, want 0", got)
	}
	other.Process.Signal(syscall.SIGTERM)
	if err := other.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("a process of no group: %v", err)
	}
}

func TestRemoveWaits(t *testing.T) {
	busy := 0 // how often a group is not empty yet
	rmdir := func(dir string) error {
		if busy--; busy >= 0 {
			return &os.PathError{Op: "rmdir", Path: dir, Err: syscall.EBUSY}
		}
		return os.RemoveAll(dir)
	}
	root := imitate(t, machine{pureMounts, "0::/s", unified("/sys/fs/cgroup/s", "pids", "pids", "")})
	c, err := cgroup.DetectIn(root, fill(newFiles[true]...), rmdir)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.New("owner", "agent", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	busy = 1000
	put(t, g.Paths()[0]+"/cgroup.procs", "0\n0\n")
	if err := g.Remove(over); err == nil || !strings.HasPrefix(err.Error(), "cannot remove a group with 2 processes: ") {
		t.Errorf("a group that stays busy: %v", err)
	}
	if g.FD() < 0 {
		t.Error("the descriptor is gone before the group")
	}
	busy = 3
	remove(t, g)
}

// Counters are read from the files of either version.
func TestEvents(t *testing.T) {
	root := imitate(t, machine{pureMounts, "0::/s", unified("/sys/fs/cgroup/s", "memory pids", "memory pids", "")})
	c, err := cgroup.DetectIn(root, fill(newFiles[true]...), os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	g := group(t, c, cgroup.Limits{Processes: 5})
	if got := g.Events(); got != (cgroup.Events{}) {
		t.Errorf("without files: %+v", got)
	}
	put(t, g.Paths()[0]+"/pids.events", "max 7\n")
	put(t, g.Paths()[0]+"/memory.events", "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n")
	if got, want := g.Events(), (cgroup.Events{Refused: 7, OOMKilled: 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
