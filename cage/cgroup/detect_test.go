package cgroup_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"pi-mcp/cage/cgroup"
)

const scope = "/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope"

func TestDetect(t *testing.T) {
	all := "processes, memory, CPU (cgroup v2 at %s/sys/fs/cgroup" + scope + ")"
	three := "processes (cgroup v1 at %[1]s/sys/fs/cgroup/pids/a); memory (cgroup v1 at %[1]s/sys/fs/cgroup/memory/a); " +
		"CPU (cgroup v1 at %[1]s/sys/fs/cgroup/cpu,cpuacct/a)"
	const own1 = "12:pids:/a\n5:memory:/a\n3:cpu,cpuacct:/a\n"
	for _, row := range []struct {
		name string
		machine
		want string
	}{
		{"delegated", machine{pureMounts, "0::" + scope, unified("/sys/fs/cgroup"+scope, "cpu io memory pids", "", me())}, all},
		{"enabled", machine{pureMounts, "0::" + scope,
			unified("/sys/fs/cgroup"+scope, "cpu memory pids", "cpu memory pids", "")}, all},
		{"second time", machine{pureMounts, "0::" + scope + "/pi-mcp-server",
			with(unified("/sys/fs/cgroup"+scope, "cpu memory pids", "cpu memory pids", ""),
				unified("/sys/fs/cgroup"+scope+"/pi-mcp-server", "cpu memory pids", "", me()))}, all},
		{"no cpu", machine{pureMounts, "0::" + scope, unified("/sys/fs/cgroup"+scope, "memory pids", "", me())},
			"processes, memory (cgroup v2 at %s/sys/fs/cgroup" + scope + ")"},
		{"namespace", machine{pureMounts, "0::/", unified("/sys/fs/cgroup", "memory pids", "", me())},
			"processes, memory (cgroup v2 at %s/sys/fs/cgroup)"},
		{"real root", machine{pureMounts, "0::/", map[string]string{ // no cgroup.type
			"/sys/fs/cgroup/cgroup.controllers":     "memory pids\n",
			"/sys/fs/cgroup/cgroup.subtree_control": "\n",
			"/sys/fs/cgroup/cgroup.procs":           "1\n2\n3\n",
		}}, "processes, memory (cgroup v2 at %s/sys/fs/cgroup)"},
		{"blank in a path", machine{`30 23 0:26 / /c\040g rw shared:9 - cgroup2 cgroup2 rw`, "0::/b g\n",
			unified("/c g/b g", "pids", "", me())}, "processes (cgroup v2 at %s/c g/b g)"},
		{"legacy", machine{legacyMounts, own1, legacy("/a")}, three},
		{"hybrid", machine{hybridMounts, own1 + "0::/\n", with(legacy("/a"), unified("/sys/fs/cgroup/unified", "", "", me()))}, three},
		{"versions are not mixed", machine{hybridMounts, own1 + "0::/\n",
			with(legacy("/a"), unified("/sys/fs/cgroup/unified", "pids", "", me()))},
			"processes (cgroup v2 at %s/sys/fs/cgroup/unified)"},
		{"container", machine{strings.ReplaceAll(legacyMounts, " / ", " /docker/1 "), strings.ReplaceAll(own1, "/a", "/docker/1/a"),
			legacy("/a")}, three},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := imitate(t, row.machine)
			want := row.want
			if strings.Contains(want, "%") {
				want = fmt.Sprintf(want, root)
			}
			c, err := detect(root)
			if err != nil {
				t.Fatal(err)
			}
			if c.String() != want {
				t.Errorf("have %s\nwant %s", c, want)
			}
		})
	}
}

func TestDetectNothing(t *testing.T) {
	for _, row := range []struct {
		name string
		machine
		want []string
	}{
		{"not mounted", machine{"24 1 0:22 / /proc rw - proc proc rw\n", "", nil},
			[]string{"cgroup v2: not mounted; cgroup v1: not mounted; start the server with systemd-run"}},
		{"no controllers", machine{pureMounts, "0::/", unified("/sys/fs/cgroup", "hugetlb", "", me())},
			[]string{"there is no controller for it at ", "/sys/fs/cgroup; cgroup v1: not mounted"}},
		{"shared", machine{pureMounts, "0::/s", unified("/sys/fs/cgroup/s", "memory pids", "", me()+"77777777\n")},
			[]string{"/sys/fs/cgroup/s holds a process that is not this server's (pid 77777777)"}},
		{"outside", machine{pureMounts, "0::/../other", nil},
			[]string{`this process's group "/../other" is outside of what is mounted at `}},
		{"outside, v1", machine{strings.ReplaceAll(legacyMounts, " / ", " /docker/1 "), "12:pids:/docker/2\n", nil},
			[]string{`cgroup v1: this process's group "/docker/2" is outside of what is mounted at `}},
		{"garbage", machine{"a b c - cgroup2\n\n - \nx", "::\n:", nil}, []string{"not mounted"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := detect(imitate(t, row.machine))
			if err == nil {
				t.Fatal("found ", c)
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

// What is there but not this user's is told apart. Root may write everything.
func TestDetectNotWritable(t *testing.T) {
	root := imitate(t, machine{pureMounts, "0::/", unified("/sys/fs/cgroup", "memory pids", "", me())})
	if err := os.Chmod(root+"/sys/fs/cgroup/cgroup.procs", 0o400); err != nil {
		t.Fatal(err)
	}
	_, err := detect(root)
	if os.Geteuid() == 0 {
		if err != nil {
			t.Error(err)
		}
		return
	}
	want := fmt.Sprintf("/sys/fs/cgroup/cgroup.procs is not writable by uid %d (permission denied)", os.Geteuid())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\ndoes not say %q", err, want)
	}
}

func TestTrim(t *testing.T) {
	root := imitate(t, machine{legacyMounts, "12:pids:/\n5:memory:/\n3:cpu,cpuacct:/\n", map[string]string{
		"/sys/fs/cgroup/pids/tasks":        "",
		"/sys/fs/cgroup/cpu,cpuacct/tasks": "",
	}})
	c, err := detect(root)
	if err != nil {
		t.Fatal(err)
	}
	left, why := c.Trim(cgroup.Limits{Processes: 3, MemoryBytes: 4, CPUPercent: 5})
	if want := (cgroup.Limits{Processes: 3}); left != want {
		t.Errorf("left %+v, want %+v", left, want)
	}
	said := strings.Join(why, "\n")
	for _, want := range []string{
		"cannot limit memory: cgroup v2: not mounted; cgroup v1: " + root + "/sys/fs/cgroup/memory is not writable",
		"cannot limit CPU: cgroup v2: not mounted; cgroup v1: this kernel has no CPU bandwidth control; start the server with",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%s\ndoes not say %q", said, want)
		}
	}
	if _, why := c.Trim(cgroup.Limits{Processes: 3}); len(why) != 0 {
		t.Errorf("complains about what was not asked for: %q", why)
	}
}

// ordinaryVar is set where this test binary runs as an ordinary user.
const ordinaryVar = "CGROUP_TEST_ORDINARY"

// As root, all tests of this package run once more as a user without groups.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		if _, err := cgroup.Detect(); os.Getenv(ordinaryVar) != "" && err == nil {
			t.Error("Detect finds something")
		}
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{ordinaryVar + "=1", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOrdinaryUser") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}
