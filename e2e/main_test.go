package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// programs are what the tests start, built once.
var programs struct {
	dir    string // holds all of them
	piMCP  string
	fakePi string
	probe  string
}

// patience bounds every wait. It is there so that a broken program does not hang
// the tests; how long something takes is not what they are about.
const patience = 2 * time.Minute

// programsVar names a directory that holds them already, for a user who cannot build.
const programsVar = "E2E_TEST_PROGRAMS"

func TestMain(m *testing.M) {
	// A Go process that blocks in a system call at the wrong moment can freeze for
	// a minute when no timer is pending.
	tick := time.NewTicker(100 * time.Millisecond)
	go func() {
		for range tick.C {
		}
	}()
	if role(os.Args) {
		return
	}
	os.Exit(testMain(m))
}

// role lets the test binary play other programs. A copy of it that has a file
// NAME.version beside it is a program that only knows its version, one with
// NAME.without a bubblewrap that leaves out what that file lists; with
// "relay" as its first argument it is a client between a test and a server, with
// "probes" the host of e2e/probe.
func role(args []string) bool {
	if version, err := os.ReadFile(args[0] + ".version"); err == nil {
		fmt.Println(string(version))
		return true
	} else if _, err := os.Lstat(args[0] + ".version"); err == nil {
		fmt.Fprintln(os.Stderr, "the version is somewhere else") // a symlink that leads nowhere
		os.Exit(3)
	}
	if words, err := os.ReadFile(args[0] + ".without"); err == nil {
		fmt.Fprintln(os.Stderr, "bwrap:", weaken(strings.Fields(string(words)), args))
		os.Exit(1)
	}
	if len(args) > 2 && args[1] == "relay" {
		relay(args[2:])
		return true
	}
	if len(args) > 2 && args[1] == "probes" {
		if err := probeHost(args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return true
	}
	return false
}

func testMain(m *testing.M) int {
	dir, err := os.Getenv(programsVar), error(nil)
	if dir == "" {
		dir, err = os.MkdirTemp("", "pi-mcp-e2e-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = build(dir)
		}
	}
	programs.dir, programs.piMCP = dir, filepath.Join(dir, "pi-mcp")
	programs.fakePi, programs.probe = filepath.Join(dir, "fakepi"), filepath.Join(dir, "probe")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	left, err := processes(dir)
	if len(left) > 0 || err != nil {
		fmt.Fprintln(os.Stderr, "processes are left:", left, err)
		return 1
	}
	return code
}

// build makes the programs as they are released: without cgo.
func build(dir string) error {
	return errors.Join(
		goBuild(filepath.Join(dir, "pi-mcp"), "../cmd/pi-mcp"),
		goBuild(filepath.Join(dir, "fakepi"), "./fakepi"),
		goBuild(filepath.Join(dir, "probe"), "./probe"),
	)
}

func goBuild(file, pkg string) error {
	cmd := exec.Command("go", "build", "-o", file, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// realPi is the pi that `make setup` installs.
func realPi(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../.tools/node_modules/.bin/pi")
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the real pi is not there, run `make setup`: %v", err)
	}
	return path
}

// eventually asks again and again until ok.
func eventually(t testing.TB, ok func() bool, why func() string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(why())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// has fails the test for every part that text lacks.
func has(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// write makes a file and the directories above it.
func write(t testing.TB, path, text string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// link makes a program known by a second name.
func link(t testing.TB, from, to string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	if os.Link(from, to) != nil {
		data, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, data, 0o755))
	}
	return to
}

// absent fails the test when a path is there.
func absent(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s is left", path)
	}
}
