package cage_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/cage"
)

// TestRootIsFixed: nothing outside a grant can be written.
func TestRootIsFixed(t *testing.T) {
	t.Parallel()
	b, root := open(t), tree(t, "w/")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}})}
	dirs := []string{"/", "/usr", "/usr/bin", "/etc", "/dev", "/run", "/tmp", "/proc", filepath.Dir(root), root}
	script := "for dir in " + strings.Join(dirs, " ") + "; do touch $dir/new && echo $dir; done; true"
	if got := output(t, b, spec, script); got != "" {
		t.Errorf("can be written: %s", got)
	}
	output(t, b, spec, "touch "+root+"/w/new /dev/shm/new") // control
	if size := output(t, b, spec, "df -k --output=size /dev/shm | tail -1"); strings.TrimSpace(size) != "65536" {
		t.Errorf("/dev/shm has %s KiB", size)
	}
}

// TestFull: what a program fills beside the host's files ends at its size.
func TestFull(t *testing.T) {
	t.Parallel()
	b, root := open(t), tree(t, "w/")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}})}
	const fill = "head -c 68157440 /dev/zero >" // 65 MiB
	r := shell(t, b, spec, fill+"/dev/shm/f; stat -c %s /dev/shm/f")
	if !strings.Contains(string(r.Stderr), "No space left") || string(r.Stdout) != "67108864\n" {
		t.Errorf("it has %s bytes: %s", r.Stdout, r.Stderr)
	}
	output(t, b, spec, fill+root+"/w/f") // control
	for _, dir := range []string{"/", "/run", "/dev"} {
		if r := shell(t, b, spec, fill+dir+"/f"); !strings.Contains(string(r.Stderr), "Read-only file system") {
			t.Errorf("%s: exit %d: %s", dir, r.Exit.Code, r.Stderr)
		}
	}
}

// TestCapabilities: as root, a cage that keeps its capabilities unmounts a mask.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	b, root := open(t), tree(t, "w/d/f")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}, Denied: []string{root + "/w/d"}})}
	for _, script := range []string{"umount " + root + "/w/d", "mount -o remount,rw /", "unshare -U true"} {
		if r := shell(t, b, spec, script); r.Exit.Code == 0 {
			t.Errorf("%s works", script)
		}
	}
	if caps := output(t, b, spec, "grep -h Cap /proc/self/status /proc/1/status"); strings.ContainsAny(caps, "123456789") {
		t.Errorf("capabilities:\n%s", caps)
	}
	if got := output(t, b, spec, "grep NoNewPrivs /proc/self/status"); !strings.HasSuffix(got, "1") {
		t.Error(got)
	}
	control := exec.Command(tool(t, "bwrap"), "--unshare-user", "--uid", "0", "--cap-add", "ALL", "--ro-bind", "/", "/",
		"--tmpfs", root+"/w/d", "/bin/sh", "-c", "umount "+root+"/w/d && unshare -U true")
	if out, err := control.CombinedOutput(); err != nil {
		t.Errorf("control: %v: %s", err, out)
	}
}

// TestNetwork: a private network has no way to the host's loopback.
func TestNetwork(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	b := open(t)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	script := fmt.Sprintf("exec %s -c 'exec 3<>/dev/tcp/127.0.0.1/%s'", tool(t, "bash"), port)
	if r := shell(t, b, cage.Spec{}, script); r.Exit.Code == 0 {
		t.Error("the private network reaches the host's loopback")
	}
	output(t, b, cage.Spec{Network: true}, script)

	// Its own loopback is up, and names still resolve from the hosts file.
	output(t, b, cage.Spec{}, "grep -q 00000000000000000000000000000001 /proc/net/if_inet6 && getent hosts localhost")
}

// TestF30Names: with the network, the resolver's settings are the host's, whatever
// the host's file is a symlink to, and certificates can be checked.
func TestF30Names(t *testing.T) {
	t.Parallel()
	b, spec := open(t), cage.Spec{Network: true}
	want, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	got := shell(t, b, spec, "cat /etc/resolv.conf").Stdout
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
	output(t, b, spec, "test -f /etc/resolv.conf -a ! -L /etc/resolv.conf")
	output(t, b, spec, "grep -q 'hosts: files dns' /etc/nsswitch.conf && getent hosts localhost")
	if certs := output(t, b, spec, "ls /etc/ssl/certs | wc -l"); certs == "0" {
		t.Error("no certificates")
	}
	if r := shell(t, b, spec, "ls /etc/ssl/private /etc/shadow /etc/sudoers"); len(r.Stdout) != 0 {
		t.Errorf("credentials of the host: %s", r.Stdout)
	}
}

// TestIdentity: the program is the server's user, by number and by name.
func TestIdentity(t *testing.T) {
	b, root := open(t), tree(t, "w/")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}})}
	name := "agent"
	if os.Getuid() == 0 {
		name = "root"
	}
	want := fmt.Sprintf("%d %d %s cage /home/agent", os.Getuid(), os.Getgid(), name)
	got := output(t, b, spec, `touch `+root+`/w/f; echo $(id -u) $(id -g) $(id -un) $(uname -n) ~`+name)
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	info, err := os.Stat(root + "/w/f")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Stat(root)
	if err != nil {
		t.Fatal(err)
	}
	if owner(info) != owner(own) {
		t.Errorf("a new file belongs to %d", owner(info))
	}
}
