package cgroup_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
)

// bomb starts processes that leave their session, up to a hundred, and counts them.
// It waits for a line first, and for the end of its input when it got that far.
const bomb = `read go
i=0
while [ $i -lt 100 ]; do
	setsid sleep 1000 </dev/null >/dev/null 2>&1 &
	i=$((i+1))
	echo $i
done
cat`

// RLIMIT_NPROC would count nothing here when the tests run as root.
func TestProcesses(t *testing.T) {
	c := controller(t)
	if c == nil || !able(t, c, cgroup.Limits{Processes: 1}) {
		return
	}
	for _, row := range []struct {
		name   string
		limits cgroup.Limits
		forks  string
	}{
		{"limit", cgroup.Limits{Processes: 40}, "39"}, // and the shell
		{"control", cgroup.Limits{}, "100"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := group(t, c, row.limits)
			p := start(t, g, bomb)
			p.in.Write([]byte("go\n"))
			p.in.Close()
			lines := p.lines()
			if len(lines) == 0 || lines[len(lines)-1] != row.forks {
				t.Errorf("started %q, want up to %s", lines, row.forks)
			}
			if got, want := g.Events().Refused > 0, row.limits.Processes > 0; got != want {
				t.Errorf("forks refused: %v, want %v", got, want)
			}
			if pids := members(t, g); len(pids) < 39 {
				t.Errorf("%d processes are left of the bomb; the test proves nothing", len(pids))
			}
			remove(t, g) // fails if one of them lives
		})
	}
}

func TestMemory(t *testing.T) {
	const limit, taken = 64 << 20, "134217728"
	c := controller(t)
	if c == nil || !able(t, c, cgroup.Limits{MemoryBytes: limit}) {
		return
	}
	for _, row := range []struct {
		name   string
		limits cgroup.Limits
		killed bool
	}{
		{"limit", cgroup.Limits{MemoryBytes: limit}, true},
		{"control", cgroup.Limits{MemoryBytes: 16 * limit}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := group(t, c, row.limits)
			// tail keeps it all, as it cannot know where the end will be
			p := start(t, g, "head -c "+taken+" /dev/zero | tail -c "+taken+" | wc -c")
			got := strings.TrimSpace(strings.Join(p.lines(), ""))
			if (got != taken) != row.killed {
				t.Errorf("could use %q bytes of memory; to be killed: %v", got, row.killed)
			}
			if killed := g.Events().OOMKilled > 0; killed != row.killed {
				t.Errorf("Events: killed %v, want %v", killed, row.killed)
			}
		})
	}
}

func TestCPU(t *testing.T) {
	c := controller(t)
	if c == nil || !able(t, c, cgroup.Limits{CPUPercent: 5}) {
		return
	}
	for _, row := range []struct {
		name    string
		percent int
		held    bool
	}{
		{"limit", 5, true},
		{"control", 200 * runtime.NumCPU(), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := group(t, c, cgroup.Limits{CPUPercent: row.percent})
			start(t, g, "while :; do :; done")
			eventually(t, "the kernel has looked five times", func() bool { return stat(t, g, "nr_periods") >= 5 })
			if held := stat(t, g, "nr_throttled") > 0; held != row.held {
				t.Errorf("held up: %v, want %v", held, row.held)
			}
		})
	}
}

// stat reads a value of the group's cpu.stat, in whichever of its directories.
func stat(t *testing.T, g *cgroup.Group, key string) int {
	t.Helper()
	for _, path := range g.Paths() {
		data, _ := os.ReadFile(filepath.Join(path, "cpu.stat"))
		if _, rest, ok := strings.Cut(string(data), key+" "); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no cpu.stat with ", key)
	return 0
}

// members returns the group's processes.
func members(t *testing.T, g *cgroup.Group) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.Paths()[0], "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}
