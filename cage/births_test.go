package cage_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/cage"
)

// orphan starts a process of the given name whose session's first process has ended, as
// a bubblewrap that was killed in the middle leaves it, and returns both and when the
// session began.
func orphan(t *testing.T, name string) (session, pid int, begun uint64) {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(tool(t, "sleep"), program); err != nil {
		t.Fatal(err)
	}
	leader := exec.Command("/bin/sh", "-c", program+" "+marker(30)+" >/dev/null 2>&1 & echo $!; read x")
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := leader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := leader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	session, begun = leader.Process.Pid, cage.StartTime(t, leader.Process.Pid)
	fmt.Sscan(readLine(t, out), &pid)
	for comm := ""; comm != name; { // until it has executed the program
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			t.Fatal(err)
		}
		comm = strings.TrimSpace(string(text))
	}
	in.Close()
	leader.Wait()
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	return session, pid, begun
}

func running(t *testing.T, pid int) bool {
	t.Helper()
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest != "" && rest[0] != 'Z'
}

// TestHalfMade: what a killed bubblewrap leaves is found by its session, and nothing
// else is taken for it.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	session, pid, begun := orphan(t, "bwrap")
	other, bystander, since := orphan(t, "innocent")
	for _, wrong := range []struct {
		pid   int
		start uint64
		boot  string
	}{{session, begun + 1<<20, cage.BootID()}, {session, begun, "another"}, {session, begun - 6001, cage.BootID()}, {other, since, cage.BootID()}} {
		if err := cage.KillStale(wrong.pid, wrong.start, wrong.boot); err != nil {
			t.Error(err)
		}
	}
	if !running(t, pid) || !running(t, bystander) {
		t.Fatal("another process was killed")
	}
	if err := cage.KillStale(session, begun, cage.BootID()); err != nil {
		t.Fatal(err)
	}
	if running(t, pid) {
		t.Error("it is still running")
	}
}

// TestSweep: Open ends what a dead server left half made, and leaves alone what a
// living one is making, and what was noted in another pid namespace.
func TestSweep(t *testing.T) {
	t.Parallel()
	own := cage.StartTime(t, os.Getpid())
	here, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		start uint64 // of a server with this pid
		space string
		swept bool
	}{{own, here, false}, {own + 1, here, true}, {own + 1, "pid:[1]", false}} {
		session, pid, begun := orphan(t, "bwrap")
		c := config(t)
		note := fmt.Sprintf("%s/births/%d.%d.%d.%d.%s.%s", c.StateDir, os.Getpid(), tc.start, session, begun, tc.space, cage.BootID())
		if err := os.MkdirAll(filepath.Dir(note), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{note, filepath.Dir(note) + "/something else"} {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b, err := cage.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		if running(t, pid) == tc.swept {
			t.Errorf("%+v: running %v", tc, !tc.swept)
		}
		if _, err := os.Stat(note); (err == nil) == tc.swept {
			t.Errorf("%+v: the note: %v", tc, err)
		}
	}
}

// TestKilledWhileStarting: a server that is killed at any moment of a start leaves
// nothing once the next one has begun, neither a process nor a file.
func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bwrap := filepath.Join(dir, "bwrap")
	text, err := os.ReadFile(tool(t, "bwrap"))
	if err == nil {
		err = os.WriteFile(bwrap, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	root := tree(t, "w/f", "w/no/f")
	if b, err := cage.Open(cage.Config{Init: initProgram, StateDir: dir}); err == nil {
		b.Close()
	}
	before := snapshot(t, dir, root)
	for i := range 40 {
		server := exec.Command(os.Args[0], "/bin/sleep", marker(31))
		server.Env = append(os.Environ(), serverVar+"="+dir, initVar+"="+initProgram, bwrapVar+"="+bwrap, writeVar+"="+root+"/w")
		out, err := server.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(out).ReadString('\n') // it begins
		for begin := time.Now(); time.Since(begin) < time.Duration(i)*500*time.Microsecond; {
			runtime.Gosched()
		}
		server.Process.Kill()
		server.Wait()
		b, err := cage.Open(cage.Config{Init: initProgram, StateDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		for _, word := range []string{bwrap, marker(31)} {
			gone(t, alive(processes(t, word)))
		}
		if diff := cmp.Diff(before, snapshot(t, dir, root)); diff != "" {
			t.Errorf("the state directory and the grant have changed: %s", diff)
		}
	}
}
