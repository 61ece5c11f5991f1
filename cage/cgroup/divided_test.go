package cgroup_test

import (
	"os"
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
)

const (
	slice   = "/sys/fs/cgroup/user.slice"
	session = slice + "/user-0.slice/session-3.scope"
)

// login is a machine on which root has logged in: its group holds a shell, too, and is
// nobody's to divide. Systemd has divided those above, the one at the top further.
func login(own string) machine {
	files := unified("/sys/fs/cgroup", "cpu io memory pids", "cpu io memory pids", "2\n3\n")
	delete(files, "/sys/fs/cgroup/cgroup.type") // the real root has none
	files = with(files, unified(slice, "cpu io memory pids", "memory pids", ""))
	files = with(files, unified(slice+"/user-0.slice", "memory pids", "memory pids", ""))
	return machine{pureMounts, "0::/user.slice/user-0.slice/session-3.scope\n", with(files, unified(session, "memory pids", "", own))}
}

// Root takes the nearest group above its own that is divided for what is limited, and
// changes nothing in it. Anybody else gets none, though the files be writable.
func TestDivided(t *testing.T) {
	root := imitate(t, login(me()+"77777777\n"))
	c, err := cgroup.DetectAsRoot(root, fill(newFiles[true]...), os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	near, top := root+slice+"/user-0.slice", root+"/sys/fs/cgroup"
	if want := "processes, memory (cgroup v2 at " + near + "); processes, memory, CPU (cgroup v2 at " + top + ")"; c.String() != want {
		t.Errorf("have %s\nwant %s", c, want)
	}
	for _, row := range []struct {
		limits cgroup.Limits
		parent string
	}{
		{cgroup.Limits{}, near},
		{cgroup.Limits{Processes: 9}, near},
		{cgroup.Limits{Processes: 9, MemoryBytes: 1 << 20}, near},
		{cgroup.Limits{Processes: 9, CPUPercent: 50}, top},
		{cgroup.Limits{CPUPercent: 50}, top},
	} {
		g := group(t, c, row.limits)
		if paths := g.Paths(); len(paths) != 1 || !strings.HasPrefix(paths[0], row.parent+"/pi-mcp-") {
			t.Errorf("%+v: %q, not in %s", row.limits, paths, row.parent)
		}
		if row.limits.Processes > 0 && content(t, g.Paths()[0]+"/pids.max") != "9" {
			t.Errorf("%+v: processes are not limited", row.limits)
		}
		if row.limits.CPUPercent > 0 && content(t, g.Paths()[0]+"/cpu.max") != "50000 100000" {
			t.Errorf("%+v: CPU is not limited", row.limits)
		}
	}
	for dir, want := range map[string]string{near: "memory pids", top: "cpu io memory pids", root + session: ""} {
		if now := content(t, dir+"/cgroup.subtree_control"); now != want {
			t.Errorf("%s hands on %q, not %q", dir, now, want)
		}
	}
	if c, err := detect(root); err == nil || !strings.Contains(err.Error(), "holds a process that is not this server's (pid 77777777)") {
		t.Errorf("an ordinary user: %v, %v", c, err)
	}
}

// A group above is taken when it can be used as it is, and only then.
func TestDividedNot(t *testing.T) {
	shared := me() + "77777777\n"
	for _, row := range []struct {
		name   string
		own    string // who is in this process's group
		change map[string]string
		want   string // where the first place is, below the mount; "" for nowhere
	}{
		{"the control", shared, nil, "/user.slice/user-0.slice"},
		{"its own group is its own", me(), nil, "/user.slice/user-0.slice/session-3.scope"},
		{"its own group is divided", "", map[string]string{session + "/cgroup.subtree_control": "memory pids\n"},
			"/user.slice/user-0.slice/session-3.scope"},
		{"no controller in its own", shared, map[string]string{session + "/cgroup.controllers": "\n"}, "/user.slice/user-0.slice"},
		{"the nearest is not divided", shared, map[string]string{slice + "/user-0.slice/cgroup.subtree_control": "\n"}, "/user.slice"},
		{"it does not count processes", shared, map[string]string{slice + "/user-0.slice/cgroup.subtree_control": "memory\n"}, "/user.slice"},
		{"only the top", shared, map[string]string{slice + "/user-0.slice/cgroup.subtree_control": "", slice + "/cgroup.subtree_control": ""}, "/"},
		{"none", shared, map[string]string{slice + "/user-0.slice/cgroup.subtree_control": "", slice + "/cgroup.subtree_control": "",
			"/sys/fs/cgroup/cgroup.subtree_control": "cpu memory\n"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := login(row.own)
			root := imitate(t, machine{m.mounts, m.own, with(m.files, row.change)})
			c, err := cgroup.DetectAsRoot(root, fill(), os.RemoveAll)
			if row.want == "" {
				if err == nil || !strings.Contains(err.Error(), "not this server's") {
					t.Errorf("%v, %v", c, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(c.String(), ";")
			if want := "(cgroup v2 at " + strings.TrimSuffix(root+"/sys/fs/cgroup"+row.want, "/") + ")"; !strings.HasSuffix(first, want) {
				t.Errorf("have %s\nwant %s first", c, want)
			}
		})
	}
}

// What a dead server left is removed wherever its agents may have been.
func TestDividedSweep(t *testing.T) {
	root := imitate(t, login(me()+"77777777\n"))
	c, err := cgroup.DetectAsRoot(root, fill(newFiles[true]...), os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, l := range []cgroup.Limits{{Processes: 9}, {CPUPercent: 50}} {
		g, err := c.New("dead", "agent", l)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, g.Paths()...)
	}
	alive := group(t, c, cgroup.Limits{Processes: 9})
	if err := c.Sweep(t.Context(), "dead"); err != nil {
		t.Error(err)
	}
	for _, path := range left {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	if _, err := os.Stat(alive.Paths()[0]); err != nil {
		t.Errorf("another owner's: %v", err)
	}
}
