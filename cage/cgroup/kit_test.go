package cgroup_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pi-mcp/cage/cgroup"
)

// controller returns what this machine really has. Where that is nothing, it tests
// that Detect says so, and returns nil: then there is nothing else to test.
func controller(t testing.TB) *cgroup.Controller {
	t.Helper()
	c, err := cgroup.Detect()
	if err == nil {
		return c
	}
	for _, want := range []string{"cannot limit processes, memory or CPU", "cgroup v2: ", "cgroup v1: ", "systemd-run"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Detect: %v: does not say %q", err, want)
		}
	}
	return nil
}

// able reports whether the machine enforces the limits. If not, it tests that Trim
// says so and that New refuses them.
func able(t testing.TB, c *cgroup.Controller, l cgroup.Limits) bool {
	t.Helper()
	left, why := c.Trim(l)
	if len(why) == 0 {
		return true
	}
	if left == l || !strings.Contains(why[0], "cannot limit") {
		t.Errorf("Trim(%+v): %+v, %q", l, left, why)
	}
	if g, err := c.New(owner(t), "refused", l); err == nil {
		remove(t, g)
		t.Errorf("New(%+v) gives a group without the limit", l)
	}
	return false
}

// owner is a name that no other test process uses.
func owner(t testing.TB) string {
	return fmt.Sprintf("test-%d-%s", os.Getpid(), strings.NewReplacer("/", "-", "#", "-").Replace(t.Name()))
}

// group makes a group that is gone when the test ends.
func group(t testing.TB, c *cgroup.Controller, l cgroup.Limits) *cgroup.Group {
	t.Helper()
	g, err := c.New(owner(t), fmt.Sprint(rand.Uint64()), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, g) })
	return g
}

func remove(t testing.TB, g *cgroup.Group) {
	t.Helper()
	if err := g.Remove(context.Background()); err != nil {
		t.Error(err)
	}
	for _, path := range g.Paths() {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// A process runs a shell script, and ends with the test.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// start runs a script in the group.
func start(t testing.TB, g *cgroup.Group, script string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("/bin/sh", "-c", script)}
	p.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: g.FD() >= 0, CgroupFD: g.FD()}
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := g.Enter(p.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
	})
	return p
}

// lines reads the output to its end, which comes when nobody holds it any more.
func (p *process) lines() []string {
	var lines []string
	for p.out.Scan() {
		lines = append(lines, p.out.Text())
	}
	return lines
}

// inside reports whether any thread of this process is in a group of the test's.
func inside(t testing.TB) bool {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil || len(tasks) == 0 {
		t.Fatal("cannot list this process's threads: ", err)
	}
	for _, task := range tasks {
		data, _ := os.ReadFile(task) // a thread may have ended
		if strings.Contains(string(data), owner(t)) {
			return true
		}
	}
	return false
}

// eventually waits for something that the kernel does in its own time.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not after a minute: ", what)
		}
	}
}
