package cgroup_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/cage/cgroup"
)

var some = cgroup.Limits{Processes: 1024, MemoryBytes: 1 << 30, CPUPercent: 150}

// What is written where, in version 2.
func TestFilesUnified(t *testing.T) {
	root := imitate(t, machine{pureMounts, "0::/s", unified("/sys/fs/cgroup/s", "cpu memory pids", "", me())})
	files := append(newFiles[true], "memory.swap.max", "cgroup.kill")
	c, err := cgroup.DetectIn(root, fill(files...), os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	base := root + "/sys/fs/cgroup/s"
	if _, err := os.Stat(base + "/pi-mcp-server"); err == nil {
		t.Error("Detect has changed something")
	}
	g := group(t, c, some)
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	got := map[string]string{
		"server":  content(t, base+"/pi-mcp-server/cgroup.procs"),
		"subtree": content(t, base+"/cgroup.subtree_control"),
	}
	for _, file := range files {
		got[file] = content(t, filepath.Join(g.Paths()[0], file))
	}
	want := map[string]string{
		"server": strings.TrimSpace(me()), "subtree": "+pids +memory +cpu",
		"pids.max": "1024", "memory.max": "1073741824", "memory.swap.max": "0", "cpu.max": "150000 100000",
		"cgroup.kill": "1", "cgroup.procs": "", "cgroup.type": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if g.FD() < 0 {
		t.Error("no descriptor")
	}
}

// What is written where, in version 1; and when a thread is where.
func TestFilesLegacy(t *testing.T) {
	root := imitate(t, machine{legacyMounts, "12:pids:/a\n5:memory:/a\n3:cpu,cpuacct:/a\n", legacy("/a")})
	c, err := cgroup.DetectIn(root, fill(append(newFiles[false], "memory.memsw.limit_in_bytes")...), os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	g := group(t, c, some)
	got := make(map[string]string)
	err = g.Enter(func() error {
		for _, path := range g.Paths() {
			kind := filepath.Base(filepath.Dir(filepath.Dir(path)))
			got[kind+" in"] = content(t, path+"/tasks")
			got[kind+" back"] = content(t, filepath.Dir(path)+"/tasks")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	paths := g.Paths()
	got["pids.max"] = content(t, paths[0]+"/pids.max")
	got["limit"] = content(t, paths[1]+"/memory.limit_in_bytes")
	got["memsw"] = content(t, paths[1]+"/memory.memsw.limit_in_bytes")
	got["quota"] = content(t, paths[2]+"/cpu.cfs_quota_us")
	got["period"] = content(t, paths[2]+"/cpu.cfs_period_us")
	for _, path := range paths {
		if content(t, filepath.Dir(path)+"/tasks") != "0" {
			t.Error("the thread has not gone back from ", path)
		}
	}
	want := map[string]string{
		"pids in": "0", "memory in": "0", "cpu,cpuacct in": "0", "pids back": "", "memory back": "", "cpu,cpuacct back": "",
		"pids.max": "1024", "limit": "1073741824", "memsw": "1073741824", "quota": "150000", "period": "100000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if g.FD() != -1 {
		t.Error("a descriptor of version 1")
	}
}

// What failed is taken back, in the group and with the server's own.
func TestNewFails(t *testing.T) {
	for _, row := range []struct {
		name    string
		missing string // what the kernel does not make
		stuck   bool   // limits cannot be enabled
		want    string
	}{
		{"a limit's file", "memory.max", false, "cannot limit memory: "},
		{"enabling", "", true, "cannot enable limits below "},
		{"control: only swap", "memory.swap.max", false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := imitate(t, machine{pureMounts, "0::/s", unified("/sys/fs/cgroup/s", "cpu memory pids", "", me())})
			base := root + "/sys/fs/cgroup/s"
			if row.stuck { // a directory in its place can be opened by nobody
				os.Remove(base + "/cgroup.subtree_control")
				os.Mkdir(base+"/cgroup.subtree_control", 0o700)
			}
			c, err := cgroup.DetectIn(root, fill(without(newFiles[true], row.missing)...), os.RemoveAll)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.New("owner", "agent", some)
			if row.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), row.want) {
				t.Errorf("%v, want %s", err, row.want)
			}
			if _, err := os.Stat(base + "/pi-mcp-owner.agent"); err == nil {
				t.Error("the group is left")
			}
			if _, err := os.Stat(base + "/pi-mcp-server"); (err == nil) == row.stuck {
				t.Errorf("the server's own group: %v", err)
			}
		})
	}
}

func without(files []string, one string) []string {
	var left []string
	for _, file := range files {
		if file != one {
			left = append(left, file)
		}
	}
	return left
}

func TestNewRefuses(t *testing.T) {
	c, err := detect(imitate(t, machine{pureMounts, "0::/s", unified("/sys/fs/cgroup/s", "pids", "pids", "")}))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		owner, agent string
		limits       cgroup.Limits
		want         string
	}{
		{"", "a", cgroup.Limits{}, "cannot name a group"},
		{"o", "../a", cgroup.Limits{}, "cannot name a group"},
		{"o.x", "a", cgroup.Limits{}, "cannot name a group"},
		{"o", strings.Repeat("a", 65), cgroup.Limits{}, "cannot name a group"},
		{"o", "a", cgroup.Limits{Processes: -1}, "a limit is positive"},
		{"o", "a", cgroup.Limits{Processes: 1, MemoryBytes: 1}, "cannot limit memory: "},
	} {
		g, err := c.New(row.owner, row.agent, row.limits)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("New(%q, %q, %+v): %v %v, want %q", row.owner, row.agent, row.limits, g, err, row.want)
		}
	}
	if err := c.Sweep(context.Background(), "*"); err == nil {
		t.Error("Sweep takes what is no name")
	}
}
