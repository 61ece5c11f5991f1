package cage_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

// TestKillEarly kills cages at every stage of being made. bubblewrap's own child
// outlives it at some of them.
func TestKillEarly(t *testing.T) {
	t.Parallel()
	b := open(t)
	sleep := marker(1)
	for i := range 60 {
		p := start(t, b, cage.Spec{}, "/bin/sleep", sleep)
		for begin := time.Now(); time.Since(begin) < time.Duration(i)*250*time.Microsecond; {
			runtime.Gosched()
		}
		p.Kill()
		<-p.Done()
		if left := processes(t, sleep); len(left) > 0 {
			t.Fatalf("killed after %d us, left: %v", i*250, left)
		}
	}
}

// TestAdopted: a server that inherits orphans, as pid 1 of a container does,
// collects what a cage leaves to it.
func TestAdopted(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	b := open(t)
	shell(t, b, cage.Spec{}, "setsid sleep "+marker(10)+" & exit 0")
	p := start(t, b, cage.Spec{}, "/bin/sh", "-c", "echo up; exec sleep "+marker(10))
	readLine(t, p.Out)
	p.Kill()
	<-p.Done()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, _ := os.ReadFile(path)
		if strings.Contains(string(stat), fmt.Sprintf("(bwrap) Z %d ", os.Getpid())) {
			t.Errorf("a zombie is left: %s", stat)
		}
	}
}

// gone waits until the processes have ended. The pidfds must come from before.
func gone(t *testing.T, pidfds []int) {
	t.Helper()
	for _, fd := range pidfds {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 10_000)
		for err == unix.EINTR {
			n, err = unix.Poll(fds, 10_000)
		}
		if n != 1 {
			t.Errorf("a process is left: %v", err)
		}
		unix.Close(fd)
	}
}

func pidfds(t *testing.T, pids []int) (fds []int) {
	t.Helper()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	return fds
}

// alive is pidfds for processes that may be ending.
func alive(pids []int) (fds []int) {
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// daemons starts two processes that have left their session, and says so.
func daemons(sleep string) []string {
	return []string{"/bin/sh", "-c", "setsid sleep " + sleep + " & setsid sleep " + sleep + " & " +
		"while [ $(grep -lz " + sleep + " /proc/[0-9]*/cmdline | wc -l) -lt 4 ]; do :; done; echo up; wait"}
}

// TestF11Daemons: what has left its session still ends with the cage.
func TestF11Daemons(t *testing.T) {
	t.Parallel()
	sleep := marker(2)
	p := start(t, open(t), cage.Spec{}, daemons(sleep)...)
	readLine(t, p.Out)
	if n := len(processes(t, sleep)); n < 3 {
		t.Fatalf("control: %d processes", n)
	}
	p.Kill()
	<-p.Done()
	if left := processes(t, sleep); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDaemonsAtExit: the same when the program ends by itself.
func TestDaemonsAtExit(t *testing.T) {
	t.Parallel()
	sleep := marker(3)
	argv := daemons(sleep)
	argv[2] = strings.TrimSuffix(argv[2], "; wait")
	p := start(t, open(t), cage.Spec{}, argv...)
	if got := p.Exit(); got != (cage.Exit{}) {
		t.Errorf("exit %+v", got)
	}
	if left := processes(t, sleep); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestF11ServerKilled: the cage ends with the server, however that ends.
func TestF11ServerKilled(t *testing.T) {
	t.Parallel()
	sleep := marker(4)
	server := exec.Command(os.Args[0], daemons(sleep)...)
	server.Env = append(os.Environ(), serverVar+"="+t.TempDir(), initVar+"="+initProgram)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	first := readLine(t, out)
	pid, _, _ := strings.Cut(first, " ")
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("the server says %q", first)
	}
	fds := pidfds(t, append(processes(t, sleep), n))
	server.Process.Kill()
	server.Wait()
	gone(t, fds)
}

// TestServerKilledOneWay: each of the two things that end a cage with its server is
// enough. With neither, the cage stays.
func TestServerKilledOneWay(t *testing.T) {
	t.Parallel()
	unbound := stub(t, help(t), "exec "+tool(t, "bwrap")+` "$@" unbound`) // an argument of the first process
	for n, tc := range []struct {
		name          string
		unbound, deaf bool // pid 1 does not die with bubblewrap; it does not see the socket's end
	}{{"both", false, false}, {"the socket", true, false}, {"bubblewrap", false, true}, {"neither", true, true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bwrap := tool(t, "bwrap")
			if tc.unbound {
				bwrap = unbound
			}
			sleep := marker(40 + n)
			server := exec.Command(os.Args[0], "/bin/sh", "-c", "echo up; exec sleep "+sleep)
			server.Env = append(os.Environ(), serverVar+"="+t.TempDir(), initVar+"="+initProgram, bwrapVar+"="+bwrap)
			server.Stderr = os.Stderr
			out, err := server.StdoutPipe()
			if err == nil {
				err = server.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { server.Process.Kill() })
			var pid, monitor int
			if _, err := fmt.Fscanf(out, "begins\n%d up\n", &monitor); err != nil {
				t.Fatal(err)
			}
			for pid == 0 { // until the shell has become it
				for _, p := range processes(t, "sleep\x00"+sleep) {
					pid = p
				}
			}
			first := parent(t, pid)
			if tc.deaf {
				unix.Kill(first, unix.SIGSTOP)
			}
			fds, monitors := pidfds(t, []int{pid, first}), pidfds(t, []int{monitor})
			server.Process.Kill()
			server.Wait()
			gone(t, monitors)
			if tc.unbound && tc.deaf {
				if !running(t, pid) {
					t.Error("it ends without either")
				}
				unix.Kill(first, unix.SIGKILL)
			}
			gone(t, fds)
		})
	}
}

// parent returns the pid of a process's parent.
func parent(t *testing.T, pid int) (ppid int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if _, err := fmt.Sscanf(rest[2:], "%d", &ppid); err != nil {
		t.Fatal(err)
	}
	return ppid
}

func TestClose(t *testing.T) {
	b := open(t)
	sleep := marker(5)
	p := start(t, b, cage.Spec{}, "/bin/sh", "-c", "echo up; sleep "+sleep)
	readLine(t, p.Out)
	b.Close()
	b.Close()
	if left := processes(t, sleep); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if got := p.Exit(); got.Signal != "SIGKILL" {
		t.Errorf("exit %+v", got)
	}
	if _, err := b.Start(t.Context(), cage.Spec{}, []string{"/bin/true"}); err == nil {
		t.Error("started after Close")
	}
}
