package cage_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

// TestDescriptors: the program has its three streams and nothing else, although
// bubblewrap was given a dozen more, and this process was started with some.
func TestDescriptors(t *testing.T) {
	dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	b, root := open(t), tree(t, "w/d/no")
	late, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0) // nor is this, after Open
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(late)
	spec := cage.Spec{
		Network: true,
		Grants:  resolve(t, cage.Grants{Write: []string{root + "/w"}, Denied: []string{root + "/w/d/no"}}),
		Binds:   []cage.Bind{{Source: root, Target: "/tmp", Write: true}},
	}
	if err := os.MkdirAll(root+strings.TrimPrefix(root, "/tmp")+"/w", 0o755); err != nil {
		t.Fatal(err)
	}
	// 3 is the listing's own.
	got := output(t, b, spec, "ls /proc/self/fd | xargs; readlink /proc/self/fd/[012]")
	if want := "0 1 2 3\n"; !strings.HasPrefix(got, want) {
		t.Errorf("descriptors %q, want %q", got, want)
	}
}

// TestF32Secrets: neither the server's environment nor the program's is in any
// process list, here or in the cage.
func TestF32Secrets(t *testing.T) {
	server, key := "server-"+marker(6), "key-"+marker(6)
	t.Setenv("PI_MCP_SECRET", server)
	p := start(t, open(t), cage.Spec{Env: []string{"KEY=" + key}}, "/bin/sh", "-c",
		`echo $KEY; unset KEY; exec /bin/sh -c 'cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr "\0" " "; echo; exec cat'`)
	lines := make([]byte, 1<<16)
	n := 0
	for bytes.Count(lines[:n], []byte("\n")) < 2 {
		more, err := p.Out.Read(lines[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += more
	}
	own, seen, _ := strings.Cut(string(lines[:n]), "\n")
	if own != key || !strings.Contains(seen, "PATH=") {
		t.Fatalf("control: the program has key %q and sees %q", own, seen)
	}
	if strings.Contains(seen, key) || strings.Contains(seen, server) {
		t.Errorf("a secret is seen in the cage: %s", seen)
	}
	for _, name := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + name)
		for _, file := range files {
			if content, _ := os.ReadFile(file); bytes.Contains(content, []byte(key)) {
				t.Errorf("the key is in %s", file)
			}
		}
	}
}

// TestProcesses: the cage shows its own processes only, and no other can be signalled.
func TestProcesses(t *testing.T) {
	b := open(t)
	got := strings.Fields(output(t, b, cage.Spec{}, "cat /proc/[0-9]*/comm; true"))
	slices.Sort(got)
	if want := []string{".pi-mcp-init", "sh"}; !slices.Equal(got, want) {
		t.Errorf("processes %v, want %v", got, want)
	}
	script := fmt.Sprintf("kill -0 %d", os.Getpid())
	if r := shell(t, b, cage.Spec{}, script); r.Exit.Code == 0 {
		t.Error("the server can be signalled")
	}
}

// TestEnvironment: the whole environment is Spec.Env.
func TestEnvironment(t *testing.T) {
	b := open(t)
	t.Setenv("FROM_THE_HOST", "1")
	r, err := b.Run(t.Context(), cage.Spec{Env: []string{"A=1", "E=", "L=x\ny=z"}, Dir: "/usr"}, []string{"/usr/bin/env", "-0"}, cage.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(r.Stdout), "\x00"), "\x00")
	slices.Sort(got)
	if want := []string{"A=1", "E=", "L=x\ny=z"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
