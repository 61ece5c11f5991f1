package cgroup_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
)

// The machine's own cgroup2, wherever it lets this process make a group at its root,
// even if it limits nothing there.
func TestUnified(t *testing.T) {
	root := cgroup.Unified()
	g, err := cgroup.Unlimited(root).New(owner(t), "agent", cgroup.Limits{})
	if root == "" || err != nil {
		if root != "" && !errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), "read-only") {
			t.Error(err)
		}
		return
	}
	defer remove(t, g)
	p := start(t, g, "cat /proc/self/cgroup; setsid sleep 1000 & cat")
	for p.out.Scan() && !strings.Contains(p.out.Text(), owner(t)) {
	}
	if !strings.HasPrefix(p.out.Text(), "0::") || inside(t) {
		t.Errorf("the child is in %q; this process too: %v", p.out.Text(), inside(t))
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	p.lines() // ends when the last process that holds the output does
	remove(t, g)
	if g.FD() >= 0 {
		t.Error("a removed group has a descriptor")
	}
}
