package cage_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pi-mcp/cage"
)

// stub writes a program that prints help and, for anything else, runs script.
func stub(t *testing.T, help, script string) string {
	t.Helper()
	path := t.TempDir() + "/bwrap"
	text := "#!/bin/sh\nif [ \"$1\" = --help ]; then cat <<'END'\n" + help + "\nEND\nexit 0; fi\n" + script + "\n"
	// Nothing may fork while it is open for writing: the kernel executes no such file.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// help is what the installed bubblewrap says, without some options.
func help(t *testing.T, without ...string) string {
	t.Helper()
	out, err := exec.Command(tool(t, "bwrap"), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		words := strings.Fields(line)
		return len(words) > 0 && slices.Contains(without, words[0])
	}), "\n")
}

// TestF24Options: options that --help does not name are left out, and the cage of
// the real program still does its work.
func TestF24Options(t *testing.T) {
	t.Parallel()
	newer := []string{"--bind-fd", "--ro-bind-fd", "--disable-userns", "--size", "--unshare-cgroup-try"}
	for _, without := range [][]string{nil, newer} {
		path := stub(t, help(t, without...), `exec `+tool(t, "bwrap")+` "$@"`)
		b, err := cage.Open(cage.Config{Bwrap: path, Init: initProgram, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var missing []string
		for _, lack := range b.Missing() {
			missing = append(missing, lack.Option)
			if lack.Means == "" {
				t.Errorf("what it means that %s is missing is not said", lack.Option)
			}
		}
		if !slices.Equal(missing, without) {
			t.Errorf("missing %v, want %v", missing, without)
		}
		root := tree(t, "w/f", "w/d/no")
		g := cage.Grants{Write: []string{root + "/w"}, Denied: []string{root + "/w/d/no"}}
		spec := cage.Spec{Grants: resolve(t, g)}
		output(t, b, spec, "cat "+root+"/w/f")
		if r := shell(t, b, spec, "cat "+root+"/w/d/no || mv "+root+"/w/d "+root+"/w/e"); r.Exit.Code == 0 {
			t.Error("the denied file is open")
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	state := t.TempDir()
	for name, test := range map[string]struct {
		config cage.Config
		why    []string
	}{
		"no file":         {cage.Config{Bwrap: "/none/bwrap", StateDir: state}, []string{"/none/bwrap", "name an executable file"}},
		"not in PATH":     {cage.Config{Bwrap: "no-such-bwrap", StateDir: state}, []string{"no-such-bwrap in PATH (", "apt install bubblewrap"}},
		"another program": {cage.Config{Bwrap: stub(t, "hello", ""), StateDir: state}, []string{"is it bubblewrap?"}},
		"fails":           {cage.Config{Bwrap: "/bin/false", StateDir: state}, []string{"cannot run /bin/false --help"}},
		"too old": {cage.Config{Bwrap: stub(t, help(t, "--json-status-fd", "--perms"), ""), StateDir: state},
			[]string{"--perms, --json-status-fd", "install bubblewrap 0.8"}},
		"no state": {cage.Config{StateDir: state + "/none"}, []string{"mask for denied files"}},
		"no init":  {cage.Config{StateDir: state}, []string{"Init is required"}},
		"dynamic":  {cage.Config{StateDir: state, Init: "/bin/sh"}, []string{"/bin/sh", "linked dynamically", "CGO_ENABLED=0"}},
		"script":   {cage.Config{StateDir: state, Init: stub(t, "", "")}, []string{"bad magic number", "CGO_ENABLED=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := cage.Open(test.config)
			if err == nil {
				b.Close()
				t.Fatal("opened")
			}
			for _, why := range test.why {
				if !strings.Contains(err.Error(), why) {
					t.Errorf("error %q does not say %q", err, why)
				}
			}
		})
	}
}

// failures are what bubblewraps in the field say, and a word of the remedy.
var failures = map[string]string{
	"No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.": "seccomp=unconfined",
	"No permissions to creating new namespace, likely because the kernel does not allow non-privileged user namespaces.":                                                                                    "seccomp=unconfined",
	"Creating new namespace failed, likely because the kernel does not support user namespaces.  bwrap must be installed setuid on such systems.":                                                           "CONFIG_USER_NS",
	"Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)":                                                                                                     "user.max_user_namespaces",
	"Creating new namespace failed: Resource temporarily unavailable":                                                                                                                                       "ulimit -u",
	"setting up uid map: Permission denied":                                              "apparmor.d/bwrap",
	"loopback: Failed RTM_NEWADDR: Operation not permitted":                              "NET_ADMIN",
	"Failed to make / slave: Permission denied":                                          "apparmor=unconfined",
	"pivot_root: Operation not permitted":                                                "seccomp=unconfined",
	"Can't mount proc on /newroot/proc: Operation not permitted":                         "systempaths=unconfined",
	"Can't bind mount /oldroot/dev/null on /newroot/dev/null: No such file or directory": "/dev",
	"execvp node: No such file or directory":                                             "not in the cage",
	"execvp /x: Permission denied":                                                       "its mode",
	"execvp /.pi-mcp-init: No such file or directory":                                    "CGO_ENABLED=0",
	"Unknown option --disable-userns":                                                    "too old",
	"Exceeded maximum number of arguments 9000":                                          "whole directories",
	"Race condition binding dirfd":                                                       "replaced",
	"Can't find source path /x: No such file or directory":                               "removed",
	"Can't mkdir parents for /home/u/p: Permission denied":                               "parent of a granted path",
	"something that nobody has seen yet":                                                 "",
}

// TestF22Failures: whatever bubblewrap says reaches the caller, with what to do,
// and the program is not started in any other way.
func TestF22Failures(t *testing.T) {
	t.Parallel()
	ran := t.TempDir() + "/ran"
	for message, remedy := range failures {
		path := stub(t, help(t), "echo 'bwrap: "+strings.ReplaceAll(message, "'", `'\''`)+"' >&2; exit 1")
		b, err := cage.Open(cage.Config{Bwrap: path, Init: initProgram, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Start(t.Context(), cage.Spec{}, []string{"/bin/touch", ran})
		if err == nil {
			p.Kill()
			t.Fatal("started")
		}
		if !strings.Contains(err.Error(), "bwrap: "+message) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v", message, err)
		}
		explained := cage.Explain("a warning\nbwrap: " + message + "\n")
		if !strings.Contains(explained, remedy) || (remedy == "") != (explained == "") {
			t.Errorf("%s: %q, want %q", message, explained, remedy)
		}
		_, err = b.Run(t.Context(), cage.Spec{}, []string{"/bin/touch", ran}, cage.Limits{})
		if err == nil || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("Run: %v", err)
		}
		b.Close()
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program ran without its cage")
	}
	if got := cage.Explain("node: pivot_root: Operation not permitted\n"); got != "" {
		t.Errorf("another program's words are explained: %s", got)
	}
}
