package cage_test

import (
	"os"
	"os/exec"
	"testing"

	"pi-mcp/cage"
)

func TestStale(t *testing.T) {
	p := start(t, open(t), cage.Spec{}, "/bin/sh", "-c", "echo up; sleep "+marker(9))
	readLine(t, p.Out)
	pid, begun, boot := p.PID(), p.StartTime(), cage.BootID()
	if boot == "" || begun == 0 || !cage.Alive(pid, begun, boot) {
		t.Fatalf("pid %d started at %d in boot %q is not alive", pid, begun, boot)
	}
	for _, other := range []struct {
		pid   int
		start uint64
		boot  string
	}{
		{pid, begun + 1, boot}, {pid, 0, boot}, {pid, begun, "another"}, {pid, begun, ""}, {os.Getpid(), begun, boot},
		{0, begun, boot}, {-1, begun, boot}, {1 << 30, begun, boot},
	} {
		if cage.Alive(other.pid, other.start, other.boot) {
			t.Errorf("%+v is alive", other)
		}
		if err := cage.KillStale(other.pid, other.start, other.boot); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if !cage.Alive(pid, begun, boot) {
		t.Fatal("another process was killed for it")
	}
	if err := cage.KillStale(pid, begun, boot); err != nil {
		t.Fatal(err)
	}
	if cage.Alive(pid, begun, boot) {
		t.Error("alive after KillStale")
	}
	if got := p.Exit(); got.Signal != "SIGKILL" {
		t.Errorf("exit %+v", got)
	}
	if err := cage.KillStale(pid, begun, boot); err != nil {
		t.Errorf("again: %v", err)
	}
}

// TestAliveZombie: what has ended and was not collected is not alive.
func TestAliveZombie(t *testing.T) {
	child := exec.Command("/bin/sh", "-c", "read x")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	begun := cage.StartTime(t, child.Process.Pid)
	if !cage.Alive(child.Process.Pid, begun, cage.BootID()) {
		t.Error("control: a running child is not alive")
	}
	fds := pidfds(t, []int{child.Process.Pid})
	in.Close()
	gone(t, fds)
	if cage.Alive(child.Process.Pid, begun, cage.BootID()) {
		t.Error("a zombie is alive")
	}
	child.Wait()
}
