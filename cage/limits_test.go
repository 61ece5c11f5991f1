package cage_test

import (
	"strings"
	"testing"

	"pi-mcp/cage"
)

// TestOneProcess: a program that takes too much memory or CPU time ends, and its cage
// with it. With room it gets through.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	b := open(t)
	const (
		memory = "head -c 100000000 /dev/zero | tail -c 100000000 | wc -c" // tail keeps it all
		work   = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"
	)
	for _, tc := range []struct {
		name, script string
		limits       cage.Rlimits
		want         string
	}{
		{"memory", memory, cage.Rlimits{Data: 64 << 20}, "0"},
		{"memory, the control", memory, cage.Rlimits{Data: 256 << 20}, "100000000"},
		{"CPU", "exec sh -c 'while :; do :; done'", cage.Rlimits{CPU: 1}, ""},
		{"CPU, the control", work, cage.Rlimits{CPU: 1000}, "done"},
	} {
		r := shell(t, b, cage.Spec{Limits: tc.limits}, tc.script)
		if got := strings.TrimSpace(string(r.Stdout)); got != tc.want {
			t.Errorf("%s: %q, not %q; %+v %s", tc.name, got, tc.want, r.Exit, r.Stderr)
		}
		if killed := r.Exit.Signal == "SIGXCPU" || r.Exit.Signal == "SIGKILL"; killed != (tc.name == "CPU") {
			t.Errorf("%s: it ended with %+v", tc.name, r.Exit)
		}
	}
}

// TestMemoryFiles: what a cage can keep in memory is bounded where it can be written,
// and nothing can be written elsewhere.
func TestMemoryFiles(t *testing.T) {
	t.Parallel()
	b := open(t)
	fill := shell(t, b, cage.Spec{}, "cat /dev/zero > /dev/shm/fill; wc -c < /dev/shm/fill; rm /dev/shm/fill; echo x > /dev/shm/after")
	if got := strings.TrimSpace(string(fill.Stdout)); got != "67108864" || fill.Exit.Code != 0 {
		t.Errorf("/dev/shm took %q bytes, not 64 MiB; exit code %d", got, fill.Exit.Code)
	}
	if said := string(fill.Stderr); !strings.Contains(said, "No space left on device") {
		t.Errorf("filling /dev/shm: %q", said)
	}
	root := shell(t, b, cage.Spec{}, "touch /new")
	if said := string(root.Stderr); root.Exit.Code == 0 || !strings.Contains(said, "Read-only file system") {
		t.Errorf("writing to /: exit code %d, %q", root.Exit.Code, said)
	}
}
