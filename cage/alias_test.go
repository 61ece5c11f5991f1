package cage_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

// aliasVar marks the process that may mount: this test again, in namespaces of
// its own, so that it neither needs root nor leaves a mount behind.
const aliasVar = "CAGE_TEST_ALIAS"

// TestAliases: what is closed stays closed when the host has it mounted at a
// second place, too.
func TestAliases(t *testing.T) {
	if os.Getenv(aliasVar) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAliases$", "-test.v")
		cmd.Env = append(os.Environ(), aliasVar+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("a_bind_mount_of_a_denied_directory")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	deny := cage.Grants{Write: []string{"w"}, Denied: []string{"secret"}}
	for _, test := range []struct {
		name       string
		from, at   string
		give       cage.Grants
		forbidden  string
		programs   string
		arg, grant string // refused, if any
	}{
		{name: "a bind mount of a denied directory", from: "secret", at: "w/m", give: deny, arg: "write", grant: "w"},
		{name: "a bind mount of a denied file", from: "secret/f", at: "w/file", arg: "read", grant: "w", give: cage.Grants{Read: []string{"w"}, Denied: []string{"secret/f"}}},
		{name: "a bind mount of what holds it", from: ".", at: "w/m", give: deny, arg: "write", grant: "w"},
		{name: "a bind mount of something in it", from: "secret/d", at: "w/m", give: deny, arg: "write", grant: "w"},
		{name: "the grant lies in the bind mount", from: "secret", at: "m", arg: "read", grant: "m/d", give: cage.Grants{Read: []string{"m/d"}, Denied: []string{"secret"}}},
		{name: "a name with a blank", from: "secret", at: "w/a b\\c", give: deny, arg: "write", grant: "w"},
		{name: "denied there too", from: "secret", at: "w/m", give: cage.Grants{Write: []string{"w"}, Denied: []string{"secret", "w/m"}}},
		{name: "not granted there", from: "secret", at: "m", give: deny},
		{name: "of something else", from: "other", at: "w/m", give: deny},
		{name: "with a longer name", from: "secretx", at: "w/m", give: deny},
		{name: "the denied path is the bind mount", from: "w/d", at: "secret", give: deny, arg: "write", grant: "w"},
		{name: "a bind mount in the denied path", from: "w/d", at: "secret/d", give: deny, arg: "write", grant: "w"},
		{name: "the server's own", from: "secret", at: "w/m", forbidden: "secret", give: cage.Grants{Write: []string{"w"}}, arg: "write", grant: "w"},
		{name: "a program, for writing", from: "secret", at: "w/m", programs: "secret", give: cage.Grants{Write: []string{"w"}}, arg: "write", grant: "w"},
		{name: "a program, for reading", from: "secret", at: "w/m", programs: "secret", give: cage.Grants{Read: []string{"w"}}},
		{name: "a read-only path in a write grant", from: "w/d", at: "w/m", give: cage.Grants{Write: []string{"w"}, Read: []string{"w/d"}}, arg: "write", grant: "w"},
		{name: "an automatic rule", from: "w/.git/hooks", at: "w/m", give: cage.Grants{Write: []string{"w"}}, arg: "write", grant: "w"},
		{name: "a read grant of its own", from: "other", at: "w/m", give: cage.Grants{Write: []string{"w"}, Read: []string{"other"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := tree(t, "w/f", "w/d/f", "w/m/", "w/a b\\c/", "w/file", "w/.git/hooks/f", "secret/f", "secret/d/f", "secretx/f", "other/f", "m/d/f")
			p := cage.Policy{}
			if test.forbidden != "" {
				p.Forbidden = []string{root + "/" + test.forbidden}
			}
			if test.programs != "" {
				p.Programs = []string{root + "/" + test.programs}
			}
			g := under(root, test.give)
			complete(t, g, p) // the control: nothing is mounted yet
			at := root + "/" + test.at
			if err := unix.Mount(root+"/"+test.from, at, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			if err := aliasError(g, p, test.arg, root+"/"+test.grant, at); err != nil {
				t.Error(err)
			}
		})
	}
}

// aliasError is what is wrong with how Complete takes a mount.
func aliasError(g cage.Grants, p cage.Policy, arg, grant, at string) error {
	resolved, err := g.Resolve(p)
	if err != nil {
		return err
	}
	_, err = resolved.Complete(p)
	if arg == "" {
		return err
	}
	refused, ok := errors.AsType[*cage.GrantError](err)
	if !ok || refused.Arg != arg || refused.Path != grant || !strings.Contains(refused.Reason, "a second time at") {
		return fmt.Errorf("got %v, want a refusal of %s in %s for what is mounted at %s", err, grant, arg, at)
	}
	return nil
}
