package cgroup_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pi-mcp/cage/cgroup"
)

// all has a limit of each kind, so that a group is in every hierarchy.
var all = cgroup.Limits{Processes: 200, MemoryBytes: 1 << 30, CPUPercent: 100}

func TestEnter(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	limits, _ := c.Trim(all)
	g := group(t, c, limits)
	p := start(t, g, "cat /proc/self/cgroup")
	got := strings.Count(strings.Join(p.lines(), "\n"), owner(t))
	if want := len(g.Paths()); got != want {
		t.Errorf("a child's child is in %d groups, want %d", got, want)
	}
	if inside(t) {
		t.Error("a thread has stayed in the group")
	}
}

func TestEnterError(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	g := group(t, c, cgroup.Limits{})
	mine := errors.New("mine")
	if err := g.Enter(func() error { return mine }); err != mine {
		t.Errorf("Enter: %v, want what fork returned", err)
	}
	remove(t, g)
	if g.FD() >= 0 {
		t.Error("a removed group has a descriptor")
	}
	if err := g.Kill(); err != nil {
		t.Errorf("Kill of a removed group: %v", err)
	}
	if inside(t) {
		t.Error("a thread has stayed in the group")
	}
}

// While a thread is in, the kernel lists this process as one of the group's.
func TestKillSparesCaller(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	g := group(t, c, cgroup.Limits{})
	p := start(t, g, "exec cat") // a shell that cannot fork any more would end by itself
	if err := g.Enter(g.Kill); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the control ends with %v, want killed", err)
	}
}

// Killing may not lose a race against forking, with or without a limit.
func TestKillWhileForking(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	limits, _ := c.Trim(cgroup.Limits{Processes: 150})
	for _, l := range []cgroup.Limits{limits, {}} {
		g := group(t, c, l)
		p := start(t, g, bomb)
		p.in.Write([]byte("go\n"))
		for range 10 {
			p.out.Scan()
		}
		if err := g.Kill(); err != nil {
			t.Error(err)
		}
		p.Wait()
		remove(t, g)
	}
}

// A process outside of the group is not touched.
func TestKillOthers(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	one, other := group(t, c, cgroup.Limits{}), group(t, c, cgroup.Limits{})
	start(t, one, "cat")
	p := start(t, other, "read line; echo $line")
	remove(t, one)
	p.in.Write([]byte("alive\n"))
	if got := p.lines(); len(got) != 1 || got[0] != "alive" {
		t.Errorf("the other group's process says %q", got)
	}
}

// Threads come and go while several agents start at once.
func TestEnterConcurrently(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	limits, _ := c.Trim(all)
	var gs []*cgroup.Group
	for range 8 {
		gs = append(gs, group(t, c, limits))
	}
	var starts sync.WaitGroup
	for _, g := range gs {
		starts.Go(func() {
			cmd := exec.Command("/bin/true")
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: g.FD() >= 0, CgroupFD: g.FD()}
			if err := g.Enter(cmd.Run); err != nil {
				t.Error(err)
			}
		})
		starts.Go(func() { exec.Command("/bin/true").Run() })
	}
	starts.Wait()
	if inside(t) {
		t.Error("a thread is in a group")
	}
}

func TestNewTwice(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	g, err := c.New(owner(t), "agent", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer remove(t, g)
	if _, err := c.New(owner(t), "agent", cgroup.Limits{}); err != nil {
		t.Errorf("over an empty group: %v", err)
	}
	start(t, g, "cat")
	if _, err := c.New(owner(t), "agent", cgroup.Limits{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a group with a process: %v, want that it exists", err)
	}
}

func TestSweep(t *testing.T) {
	c := controller(t)
	if c == nil {
		return
	}
	limits, _ := c.Trim(all)
	dead, err := c.New(owner(t), "agent", limits)
	if err != nil {
		t.Fatal(err)
	}
	live, err := c.New(owner(t)+"-2", "agent", limits)
	if err != nil {
		t.Fatal(err)
	}
	defer remove(t, live)
	lost, kept := start(t, dead, "cat"), start(t, live, "cat")
	if err := c.Sweep(context.Background(), owner(t)); err != nil {
		t.Error(err)
	}
	lost.Wait()
	remove(t, dead)
	kept.in.Close()
	if err := kept.Wait(); err != nil {
		t.Errorf("another owner's process: %v", err)
	}
	if err := c.Sweep(context.Background(), owner(t)); err != nil {
		t.Errorf("with nothing to do: %v", err)
	}
}
