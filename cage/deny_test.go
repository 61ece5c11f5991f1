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

// TestDenied asks the kernel, operation by operation. Each script must fail with
// deny and succeed with allow, on a fresh tree each time.
func TestDenied(t *testing.T) {
	write := cage.Grants{Write: []string{"w"}}
	read := cage.Grants{Read: []string{"w"}}
	deny := func(path string) cage.Grants { return cage.Grants{Write: []string{"w"}, Denied: []string{path}} }
	b := open(t)
	for _, test := range []struct {
		name, script string
		deny, allow  cage.Grants
	}{
		{"read without a grant", `cat w/f`, cage.Grants{}, read},
		{"read a sibling of a grant", `cat w/f`, cage.Grants{Read: []string{"wx"}}, read},
		{"read above a grant", `cat w/f`, cage.Grants{Read: []string{"w/d"}}, read},
		{"write in a read grant", `echo x >w/f`, read, write},
		{"create in a read grant", `mkdir w/new`, read, write},
		{"remove from a read grant", `rm w/f`, read, write},
		{"write in a read path inside a write grant", `echo x >w/d/e/f`, cage.Grants{Write: []string{"w"}, Read: []string{"w/d/e"}}, write},
		{"write in a write path inside a read grant", `echo x >w/f && echo x >w/d/f`, cage.Grants{Read: []string{"w"}, Write: []string{"w/d"}}, write},
		{"hard link out of a read grant", `ln wx/f w/link`, cage.Grants{Write: []string{"w"}, Read: []string{"wx"}},
			cage.Grants{Write: []string{"."}}},
		{"F27 read a denied file", `cat w/f`, deny("w/f"), write},
		{"F27 list a denied directory", `ls w/d`, deny("w/d"), write},
		{"read below a denied directory", `cat w/d/e/f`, deny("w/d"), write},
		{"create in a denied directory", `touch w/d/new`, deny("w/d"), write},
		{"replace a denied file", `mv w/g w/f`, deny("w/f"), write},
		{"remove a denied file", `rm -f w/f`, deny("w/f"), write},
		{"open up a denied file", `chmod 644 w/f`, deny("w/f"), write},
		{"open up a denied directory", `chmod 755 w/d`, deny("w/d"), write},
		{"move a denied directory", `mv w/d w/moved`, deny("w/d"), write},
		{"move the parent of a denied file", `mv w/d w/moved`, deny("w/d/e/f"), write},
		{"move the parent of a denied directory", `mv w/d w/moved`, deny("w/d/e"), write},
		{"move the parent of a read-only path", `mv w/d w/moved`, cage.Grants{Write: []string{"w"}, Read: []string{"w/d/e/f"}}, write},
		{"denied in a read grant", `cat w/d/f`, cage.Grants{Read: []string{"w"}, Denied: []string{"w/d"}}, read},
		{"denied among the system's files", `cat /usr/share/../bin/env`, cage.Grants{Read: []string{"w"}, Denied: []string{"/usr/bin/env"}}, read},
		{"F26 denied symlink to a file", `cat w/f`, deny("links/file"), write},
		{"F26 denied symlink to a directory", `ls w/d`, deny("links/dir"), write},
		{"F26 denied symlink inside the grant", `cat w/d/f`, deny("w/inner"), write},
		{"F26 denied symlink to a file outside", `cat wx/f`, deny("w/outer"), cage.Grants{Write: []string{"w"}, Read: []string{"wx"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, side := range []struct {
				grants cage.Grants
				ok     bool
			}{{test.deny, false}, {test.allow, true}} {
				root := tree(t, "w/f", "w/g", "w/d/f", "w/d/e/f", "wx/f", "links/")
				link(t, "../w/f", root+"/links/file")
				link(t, "../w/d", root+"/links/dir")
				link(t, "d/f", root+"/w/inner")
				link(t, root+"/wx/f", root+"/w/outer")
				spec := cage.Spec{Grants: resolve(t, under(root, side.grants))}
				r := shell(t, b, spec, "cd "+root+" && { "+test.script+"; }")
				if ok := r.Exit.Code == 0; ok != side.ok {
					t.Errorf("%v: exit %d, want ok %v: %s", side.grants, r.Exit.Code, side.ok, r.Stderr)
				}
			}
		})
	}
}

// TestRootIsFixed: nothing outside a grant can be written.
func TestRootIsFixed(t *testing.T) {
	b, root := open(t), tree(t, "w/")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}})}
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/dev", "/run", "/tmp", "/proc", filepath.Dir(root), root} {
		if r := shell(t, b, spec, "touch "+dir+"/new"); r.Exit.Code == 0 {
			t.Errorf("%s can be written", dir)
		}
	}
	output(t, b, spec, "touch "+root+"/w/new /dev/shm/new") // control
	if size := output(t, b, spec, "df -k --output=size /dev/shm | tail -1"); strings.TrimSpace(size) != "65536" {
		t.Errorf("/dev/shm has %s KiB", size)
	}
}

// TestCapabilities: as root, a cage that keeps its capabilities unmounts a mask.
func TestCapabilities(t *testing.T) {
	b, root := open(t), tree(t, "w/d/f")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}, Denied: []string{root + "/w/d"}})}
	for _, script := range []string{"umount " + root + "/w/d", "mount -o remount,rw /", "unshare -U true"} {
		if r := shell(t, b, spec, script); r.Exit.Code == 0 {
			t.Errorf("%s works", script)
		}
	}
	if caps := output(t, b, spec, "grep -h Cap /proc/self/status /proc/1/status"); strings.ContainsAny(caps, "123456789abcdef"[:9]) {
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

// TestPrivateTmp: a grant below the host's /tmp is at its place in the cage's own.
func TestPrivateTmp(t *testing.T) {
	b, root := open(t), tree(t, "agent/tmp/", "project/f", "project/secret")
	spec := cage.Spec{
		Grants: resolve(t, cage.Grants{Write: []string{root + "/project"}, Denied: []string{root + "/project/secret"}}),
		Binds:  []cage.Bind{{Source: root + "/agent/tmp", Target: "/tmp", Write: true}},
	}
	if _, err := b.Run(t.Context(), spec, []string{"/bin/true"}, cage.Limits{}); err == nil {
		t.Fatal("started without a mount point in the agent's tmp")
	}
	dirs, files, err := spec.Grants.Under("/tmp")
	if err != nil || len(dirs) != 1 || len(files) != 0 {
		t.Fatalf("mount points %v %v, %v", dirs, files, err)
	}
	if err := os.MkdirAll(filepath.Join(root, "agent/tmp", dirs[0]), 0o755); err != nil {
		t.Fatal(err)
	}
	output(t, b, spec, "echo own >/tmp/own && echo x >"+root+"/project/new")
	for _, path := range []string{"agent/tmp/own", "project/new"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	if r := shell(t, b, spec, "cat "+root+"/project/secret"); r.Exit.Code == 0 {
		t.Error("the denied file can be read")
	}
	if r := shell(t, b, spec, "mv /tmp/"+strings.Split(dirs[0], "/")[0]+" /tmp/moved"); r.Exit.Code == 0 {
		t.Error("the way to the grant can be moved")
	}
}

// TestSwapped: a grant that has become a symlink since Resolve is not mounted.
func TestSwapped(t *testing.T) {
	b, root := open(t), tree(t, "p/w/f", "secret/w/f", "agent/tmp/")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/p/w"}})}
	output(t, b, spec, "cat "+root+"/p/w/f")
	if err := os.Rename(root+"/p", root+"/old"); err != nil {
		t.Fatal(err)
	}
	link(t, "secret", root+"/p")
	_, err := b.Run(t.Context(), spec, []string{"/bin/cat", root + "/p/w/f"}, cage.Limits{})
	if err == nil || !strings.Contains(err.Error(), "a symlink has appeared") {
		t.Errorf("error %v", err)
	}
}

// TestF29ManyRules: many work, and there is a clear word when they are too many.
func TestF29ManyRules(t *testing.T) {
	var names []string
	for i := range 3100 {
		names = append(names, fmt.Sprintf("w/%04d", i))
	}
	b, root := open(t), tree(t, names...)
	g := cage.Grants{Write: []string{"w"}, Denied: names[:300]}
	spec := cage.Spec{Grants: resolve(t, under(root, g))}
	if r := shell(t, b, spec, "cat "+root+"/w/0000 || cat "+root+"/w/0299"); len(r.Stdout) != 0 {
		t.Errorf("denied files can be read: %s", r.Stdout)
	}
	output(t, b, spec, "cat "+root+"/w/0300")
	g.Denied = names
	spec.Grants = resolve(t, under(root, g))
	_, err := b.Run(t.Context(), spec, []string{"/bin/true"}, cage.Limits{})
	if err == nil || !strings.Contains(err.Error(), "whole directories") {
		t.Errorf("error %v", err)
	}
}

// TestOddPaths: names that an argument list or a mount table could trip over.
func TestOddPaths(t *testing.T) {
	b := open(t)
	for _, name := range []string{"with space", "new\nline", `back\slash`, "--bind", "\xff\xfe", "ü", strings.Repeat("n", 255)} {
		root := tree(t, name+"/f", name+"/no/f")
		g := cage.Grants{Write: []string{root + "/" + name}, Denied: []string{root + "/" + name + "/no"}}
		spec := cage.Spec{Grants: resolve(t, g), Dir: root + "/" + name}
		r := shell(t, b, spec, "echo x >f; ls no")
		if got, _ := os.ReadFile(root + "/" + name + "/f"); string(got) != "x\n" || r.Exit.Code == 0 {
			t.Errorf("%q: wrote %q, exit %d: %s", name, got, r.Exit.Code, r.Stderr)
		}
	}
}
