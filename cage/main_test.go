package cage_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pi-mcp/cage"
)

// serverVar makes this test binary a server that starts one cage, see runServer.
const serverVar = "CAGE_TEST_SERVER"

// initVar tells such a server its cages' first process, and bwrapVar its bubblewrap, in
// which case it also says when it begins.
const (
	initVar  = "CAGE_TEST_INIT"
	bwrapVar = "CAGE_TEST_BWRAP"
)

// writeVar names a directory that such a server's cage may write, but for what is
// called no in it.
const writeVar = "CAGE_TEST_WRITE"

// initProgram is the first process of all cages here, built once. The test binary
// cannot be it: with the race detector it is linked dynamically.
var initProgram string

func TestMain(m *testing.M) {
	initProgram = os.Getenv(initVar)
	if state := os.Getenv(serverVar); state != "" {
		runServer(state, os.Args[1:])
		return
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if initProgram != "" { // another user may be unable to build it
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "cage-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	initProgram = filepath.Join(dir, "init")
	build := exec.Command("go", "build", "-o", initProgram, "./testdata/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the first process: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// config is that of cages with a state directory of the test's own.
func config(t testing.TB) cage.Config {
	return cage.Config{Init: initProgram, StateDir: t.TempDir()}
}

// runServer starts argv in a cage, copies its first line of output
// and then does nothing, until it is killed.
func runServer(state string, argv []string) {
	b, err := cage.Open(cage.Config{Bwrap: os.Getenv(bwrapVar), Init: initProgram, StateDir: state})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(bwrapVar) != "" {
		fmt.Println("begins")
	}
	spec := cage.Spec{Env: env}
	if dir := os.Getenv(writeVar); dir != "" {
		spec.Grants = cage.Grants{Write: []string{dir}, Denied: []string{dir + "/no"}}
	}
	p, err := b.Start(context.Background(), spec, argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		line := make([]byte, 64)
		n, _ := p.Out.Read(line)
		fmt.Printf("%d %s", p.PID(), line[:n])
	}()
	<-p.Done()
}

// env is what the shells of these tests need.
var env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}

func open(t testing.TB) *cage.Bwrap {
	t.Helper()
	b, err := cage.Open(config(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// shell runs a script in a cage of its own.
func shell(t testing.TB, b *cage.Bwrap, spec cage.Spec, script string) cage.Result {
	t.Helper()
	spec.Env = append(spec.Env, env...)
	r, err := b.Run(t.Context(), spec, []string{"/bin/sh", "-c", script}, cage.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return r
}

// output is shell for a script that must succeed.
func output(t testing.TB, b *cage.Bwrap, spec cage.Spec, script string) string {
	t.Helper()
	r := shell(t, b, spec, script)
	if r.Exit.Code != 0 {
		t.Fatalf("%s: exit %d: %s", script, r.Exit.Code, r.Stderr)
	}
	return strings.TrimSuffix(string(r.Stdout), "\n")
}

func resolve(t testing.TB, g cage.Grants) cage.Grants {
	t.Helper()
	g, err := g.Resolve(cage.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tree makes the named files, each holding its own name, and returns the directory.
// A name that ends in / is a directory.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// tool returns the path of a program that the test needs on the host.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// processes returns the pids of all the host's processes whose command line has word.
func processes(t testing.TB, word string) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path) // it may have ended
		if bytes.Contains(line, []byte(word)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}
