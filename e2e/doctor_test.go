package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
	"pi-mcp/scripted"
)

// A finding is one line of the doctor.
type finding struct{ Name, Status, Detail string }

// findings are the doctor's.
type findings []finding

// doctor runs it with env in addition to the world's.
func (w *world) doctor(env ...string) (all findings, code int) {
	w.t.Helper()
	out, errs, code := w.start(env, "doctor", "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		w.t.Fatalf("%v: %s%s", err, out, errs)
	}
	w.healthy(all, code, errs)
	return all, code
}

// healthy compares the exit code with the findings.
func (w *world) healthy(all findings, code int, errs string) {
	w.t.Helper()
	want := 0
	for _, f := range all {
		if f.Status == "error" {
			want = 1
		}
	}
	if code != want || (want == 1) != strings.Contains(errs, "agents cannot run here") {
		w.t.Errorf("exit code %d, %q: %+v", code, errs, all)
	}
}

// is fails the test unless a row with this name and status has the words.
func (all findings) is(t testing.TB, name, status string, words ...string) {
	t.Helper()
	for _, f := range all {
		if f.Name != name || f.Status != status {
			continue
		}
		has(t, name, f.Detail, words...)
		return
	}
	t.Errorf("no row %s has the status %s: %+v", name, status, all)
}

// ends fails the test unless the last row is of this name: what depends on something
// broken is not looked at.
func (all findings) ends(t testing.TB, name string) {
	t.Helper()
	if last := all[len(all)-1]; last.Name != name {
		t.Errorf("after %s comes %+v", name, last)
	}
}

// On a machine where agents run, the doctor finds nothing broken. It leaves nothing
// behind, and no secret is in what it says.
func TestDoctor(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	key, other := secret(), secret()
	w.hostPi("auth.json", logins(map[string]string{"scripted": key}))
	must(t, os.Mkdir(w.path("tmp"), 0o700))
	env := []string{"TMPDIR=" + w.path("tmp"), "DEEPSEEK_API_KEY=" + other, "PI_MCP_ACCESS_TOKEN=" + other}
	out, errs, code := w.start(env, "doctor")
	if code != 0 || strings.Contains(out, "error ") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, part := range []string{"landlock", "bubblewrap"} {
		has(t, "doctor", out, part)
	}
	all, _ := w.doctor(env...)
	if lines := strings.Count(out, "\n"); lines != len(all) {
		t.Errorf("%d findings in %d lines:\n%s", len(all), lines, out)
	}
	for _, f := range all {
		has(t, "doctor", out, f.Name, f.Detail)
	}
	for _, name := range []string{"setuid", "user namespace", "network", "/proc", "/dev"} {
		all.is(t, name, "ok")
	}
	all.is(t, "cage", "ok", "ways out")
	all.is(t, "pi", "ok", "1.6.0")
	all.is(t, "pi in a cage", "ok", "1.6.0")
	all.is(t, "credentials", "ok", "provider scripted is ready")
	for _, s := range []string{key, other} {
		if strings.Contains(out+errs, s) {
			t.Errorf("a secret is shown:\n%s%s", out, errs)
		}
	}
	if left, err := filepath.Glob(w.path("tmp", "pi-mcp*")); len(left) > 0 || err != nil {
		t.Errorf("it leaves %v, %v", left, err)
	}
	absent(t, w.path("state", "db"))
	all, _ = w.doctor("PI_MCP_PROVIDER=nobody")
	all.is(t, "credentials", "warning", "nobody")
}

// What bubblewrap says about a machine that cannot have cages is in the first row that
// fails, with the remedy.
func TestDoctorBubblewrap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	help := bwrapHelp(t)
	for _, tc := range startFailures {
		all, _ := w.doctor("PI_MCP_BWRAP=" + w.stub("says", help, "bwrap: "+tc.words))
		all.is(t, "user namespace", "error", tc.words, tc.remedy)
		all.ends(t, "user namespace")
	}
	for option, step := range map[string]string{"--unshare-net": "network", "--proc": "/proc", "--dev": "/dev"} {
		all, _ := w.doctor("PI_MCP_BWRAP=" + w.stubAt(option, "bwrap: it cannot be"))
		all.is(t, step, "error", "it cannot be")
		all.is(t, "user namespace", "ok")
		all.ends(t, step)
	}
	all, _ := w.doctor("PATH=/nonexistent")
	all.is(t, "bubblewrap", "error", "apt install bubblewrap")
	all, _ = w.doctor("PI_MCP_BWRAP=" + w.stub("old", strings.ReplaceAll(help, "--json-status-fd", "--other"), ""))
	all.is(t, "bubblewrap", "error", "too old", "--json-status-fd")
	all, _ = w.doctor("PI_MCP_BWRAP=" + w.real("degraded", strings.ReplaceAll(help, "--size", "--other")))
	all.is(t, "bubblewrap", "warning", "--size", "memory", "newer")
	all.is(t, "cage", "ok")
	suid := w.path("suid", "bwrap")
	text, err := os.ReadFile(bwrapPath(t))
	must(t, err)
	write(t, suid, string(text))
	must(t, os.Chmod(suid, 0o755|os.ModeSetuid))
	all, _ = w.doctor("PI_MCP_BWRAP=" + suid)
	all.is(t, "setuid", "warning", suid, "0.11.2", "chmod u-s")
}

// stubAt makes a bubblewrap that fails with words when it is told option.
func (w *world) stubAt(option, words string) string {
	w.t.Helper()
	return write(w.t, w.path("stubs", "at"+strings.ReplaceAll(option, "/", "")),
		"#!/bin/sh\nfor a; do if [ \"$a\" = "+option+" ]; then echo '"+words+"' >&2; exit 1; fi; done\nexec "+bwrapPath(w.t)+" \"$@\"\n")
}

// real makes the real bubblewrap known by another help.
func (w *world) real(name, help string) string {
	w.t.Helper()
	options := write(w.t, w.path("stubs", name+".help"), help)
	return write(w.t, w.path("stubs", name),
		"#!/bin/sh\nif [ \"$1\" = --help ]; then cat '"+options+"'; exit 0; fi\nexec "+bwrapPath(w.t)+" \"$@\"\n")
}

func bwrapPath(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("bwrap")
	must(t, err)
	return path
}

// A bubblewrap that makes weaker cages than it is told is found from inside, before a
// program runs; one that does more than it is told by what a program in a cage can do.
func TestDoctorSelftest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	more := "#!/bin/sh\nexec " + bwrapPath(t) + " --ro-bind /sys /sys \"$@\"\n"
	for _, tc := range []struct{ bwrap, says string }{
		{w.weakBwrap("net", "--unshare-net"), "net namespace"},
		{w.weakBwrap("pid", "--unshare-pid"), "cannot make the cage"},
		{w.weakBwrap("filter", "--seccomp", "6"), "filter"},
		{write(t, w.path("stubs", "more"), more), "do not run agents"},
	} {
		all, code := w.doctor("PI_MCP_BWRAP=" + tc.bwrap)
		if code != 1 {
			t.Errorf("%s: exit code %d, %+v", tc.bwrap, code, all)
		}
		all.ends(t, "cage")
		if !all.row("cage", tc.says) {
			t.Errorf("%s: no row has %q: %+v", tc.bwrap, tc.says, all)
		}
	}
	all, _ := w.doctor("PI_MCP_BWRAP=" + w.weakBwrap("whole", "--none")) // the control
	all.is(t, "cage", "ok")
}

// row reports whether a broken row of this name has the word.
func (all findings) row(name, word string) bool {
	for _, f := range all {
		if f.Name == name && f.Status == "error" && strings.Contains(f.Detail, word) {
			return true
		}
	}
	return false
}

// A pi or a Node.js that is missing, too old, or lacks something in a cage.
func TestDoctorPi(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, _ := w.doctor("PI_MCP_PI=/pi-nowhere")
	all.is(t, "pi", "error", "/pi-nowhere", "npm install")
	all.ends(t, "pi")
	all, _ = w.doctor("PI_MCP_PI=" + program(t, w.path("old", "pi"), "1.0.0"))
	all.is(t, "pi", "error", "1.0.0", "1.4.0")
	all, _ = w.doctor("PI_MCP_PI="+realPi(t), "PI_MCP_NODE=/node-nowhere")
	all.is(t, "pi", "error", "/node-nowhere", "22.19")

	// One that needs a file which no cage shows.
	lost := program(t, w.path("lost", "pi"), "1.6.0")
	must(t, os.Rename(lost+".version", w.path("elsewhere")))
	must(t, os.Symlink(w.path("elsewhere"), lost+".version"))
	all, _ = w.doctor("PI_MCP_PI=" + lost)
	all.is(t, "pi", "ok", "1.6.0")
	all.is(t, "pi in a cage", "error", "is not in the cage", "the version is somewhere else")
	all.ends(t, "pi in a cage")
	all, _ = w.doctor() // the control
	all.is(t, "pi in a cage", "ok")
}

// inContainer runs the doctor in a sandbox of bubblewrap's that shows the host.
func (w *world) inContainer(args ...string) (all findings) {
	w.t.Helper()
	inner := w.command(nil, "doctor", "--json")
	cmd := exec.Command("bwrap", append(append([]string{"--dev-bind", "/", "/"}, args...), inner.Args...)...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = inner.Env, inner.Dir, &out, &errs
	_ = cmd.Run() // its exit code is that of the findings
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		w.t.Fatalf("%v: %s%s", err, out.String(), errs.String())
	}
	w.healthy(all, cmd.ProcessState.ExitCode(), errs.String())
	return all
}

// Who runs it and what control groups it can write decide about the limits: root needs
// them, anybody else goes without.
func TestDoctorUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	groups, err := filepath.EvalSymlinks("/sys/fs/cgroup")
	must(t, err)
	hidden := []string{"--tmpfs", groups, "--remount-ro", groups}
	root := append([]string{"--unshare-user", "--uid", "0", "--gid", "0"}, hidden...)
	user := append([]string{"--unshare-user", "--uid", "1000", "--gid", "1000"}, hidden...)
	all := w.inContainer(append(root[:len(root):len(root)], "--setenv", "PI_MCP_MAX_PROCESSES", "1024")...)
	all.is(t, "user", "warning", "running as root")
	all.is(t, "limits", "error", "as root", "--max-processes none")
	all = w.inContainer(append(root, "--setenv", "PI_MCP_MAX_PROCESSES", "none")...)
	all.is(t, "control groups", "warning", "systemd-run")
	all = w.inContainer(user...)
	all.is(t, "user", "ok", "uid 1000")
	all.is(t, "control groups", "warning", "systemd-run --user")
	all.is(t, "cage", "ok")
}

// The doctor says whether a limit on memory and CPU holds here.
func TestDoctorLimits(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	for env, limit := range map[string]cgroup.Limits{
		"PI_MCP_MAX_MEMORY=2GiB": {MemoryBytes: 1 << 20}, "PI_MCP_MAX_CPU=1": {CPUPercent: 1}, "PI_MCP_MAX_CPU=none": {},
	} {
		none, want := limit == cgroup.Limits{}, "ok       limits"
		if !none && !enforced(limit) {
			want = "warning  limits"
		}
		out, errs, code := w.start([]string{env}, "doctor")
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "are not set") != none {
			t.Errorf("%s: exit code %d\n%s%s", env, code, out, errs)
		}
	}
}

// The doctor is for showing around: neither a key nor a token is in what it says.
func TestDoctorTellsNoSecret(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	key, token, decoy := secret(), secret(), secret()
	w.hostPi("auth.json", logins(map[string]string{scripted.Provider: key}))
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}} {
		out, errs, code := w.start([]string{"PI_MCP_ACCESS_TOKEN=" + token, "MY_API_KEY=" + decoy, "PI_MCP_LOG_LEVEL=debug"}, args...)
		if code != 0 {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
		has(t, "the control: the credentials were looked at", out, "provider "+scripted.Provider+" is ready")
		for what, word := range map[string]string{"key": key, "token": token, "decoy": decoy} {
			if strings.Contains(out+errs, word) {
				t.Errorf("%v: the %s is in what it says", args, what)
			}
		}
	}
}
