package cage_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"pi-mcp/cage"
	"pi-mcp/cage/seccomp"
)

// TestConfined: what a bubblewrap leaves out without a word is found from inside, and
// the program is not started. Some of it only root's bubblewrap can leave out.
func TestConfined(t *testing.T) {
	t.Parallel()
	root := os.Getuid() == 0
	for _, tc := range []struct {
		name string
		does string // what the bubblewrap does first, see weak
		spec cage.Spec
		says string // "" where the program starts
	}{
		{name: "whole"},
		{name: "whole, the host's network", spec: cage.Spec{Network: true}},
		{name: "whole, less filtered", spec: cage.Spec{Unix: true, Debug: true}},
		{name: "no filter", does: "drop '--seccomp' +1", says: "no system call filter"},
		{name: "no filter, less filtered", does: "drop '--seccomp' +1", spec: cage.Spec{Unix: true, Debug: true}, says: "no system call filter"},
		{name: "another filter", does: allowAll, says: "does not refuse setting set-user-ID bits"},
		{name: "a filter for Unix sockets", does: filter(t, seccomp.Options{Unix: true}), says: "does not refuse Unix sockets"},
		{name: "a filter for debuggers", does: filter(t, seccomp.Options{Debug: true}), says: "does not refuse tracing"},
		{name: "capabilities", does: "drop '--cap-drop' +1", says: only(root, "capabilities are left")},
		{name: "the user namespace", does: "drop '--unshare-user'; drop '--disable-userns'", says: only(root, "own user namespace")},
		{name: "the IPC namespace", does: "drop '--unshare-ipc'", says: "own ipc namespace"},
		{name: "the host's name", does: "drop '--unshare-uts'; drop '--hostname' +1", says: "own uts namespace"},
		{name: "the network", does: "drop '--unshare-net'", says: "own net namespace"},
		{name: "the pid namespace", does: "drop '--unshare-pid'", says: "--unshare-pid"},
		{name: "the session", does: "drop '--new-session'", says: "no session of its own"},
		{name: "the end", does: "drop '--die-with-parent'", says: "would outlive bubblewrap"},
		{name: "what cannot be seen", does: "drop '--disable-userns'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, "w/")
			ran := dir + "/w/ran"
			tc.spec.Grants = resolve(t, cage.Grants{Write: []string{dir + "/w"}})
			_, err := weak(t, tc.does).Run(t.Context(), tc.spec, []string{"/bin/touch", ran}, cage.Limits{})
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %q", err, tc.says)
			}
			if err != nil && tc.does != "drop '--unshare-pid'" && !strings.Contains(err.Error(), "install another one") {
				t.Errorf("no remedy: %v", err)
			}
			if _, err := os.Stat(ran); (err == nil) != (tc.says == "") {
				t.Errorf("the program ran: %t", err == nil)
			}
		})
	}
}

// allowAll is another filter in the place of the cage's: one instruction, which lets
// everything through.
const allowAll = `printf '\006\000\000\000\000\000\377\177' >$TMP/f; exec 6<$TMP/f`

// filter puts the cage's filter with other options there.
func filter(t *testing.T, o seccomp.Options) string {
	t.Helper()
	from, err := seccomp.File(o)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	text, err := io.ReadAll(from)
	path := t.TempDir() + "/filter"
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "exec 6<" + path
}

// only is says for who can bring it about.
func only(root bool, says string) string {
	if root {
		return says
	}
	return ""
}

// weak makes cages with a bubblewrap that first does something; drop takes options, and
// +1 what follows them, out of what it is told.
func weak(t *testing.T, does string) *cage.Bwrap {
	t.Helper()
	path := stub(t, help(t), fmt.Sprintf(`TMP=%s
		drop() { sed -z "/^$1\$/${2:+,$2}d" <&3 >$TMP/args; exec 3<$TMP/args; mv $TMP/args $TMP/read; }
		PATH=/usr/bin:/bin; %s
		exec %s "$@"`, t.TempDir(), does, tool(t, "bwrap")))
	b, err := cage.Open(cage.Config{Bwrap: path, Init: initProgram, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// TestConfinedDevice: a network of the cage's own that has more than a loopback is found.
// Making one takes root.
func TestConfinedDevice(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return
	}
	for device, says := range map[string]string{"up": "network device pimcp0", "down": ""} {
		does := "drop '--unshare-net'; " +
			fmt.Sprintf(`exec %s -n /bin/sh -c '%[2]s link add pimcp0 type veth peer name pimcp1; %[2]s link set pimcp0 %[3]s; exec "$0" "$@"' `,
				tool(t, "unshare"), tool(t, "ip"), device) + tool(t, "bwrap") + ` "$@"`
		_, err := weak(t, does).Run(t.Context(), cage.Spec{}, []string{"/bin/true"}, cage.Limits{})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("a device that is %s: error %v, want %q", device, err, says)
		}
	}
}
