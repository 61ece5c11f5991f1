package cage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/cage"
	"pi-mcp/cage/cgroup"
)

// TestListeners: what connects to an address inside one cage is accepted here, and the
// address is neither the host's nor another cage's.
func TestListeners(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:17017"
	b, bash := open(t), tool(t, "bash")
	spec := cage.Spec{Listen: []string{address, "127.0.0.1:0"}}
	dial := []string{bash, "-c", "exec 3<>/dev/tcp/127.0.0.1/17017; cat <&3"}
	for _, word := range []string{"one", "two"} {
		p := start(t, b, spec, dial...)
		ls := p.Listeners()
		if len(ls) != 2 || ls[0].Addr().String() != address {
			t.Fatalf("listeners %v", ls)
		}
		conn, err := ls[0].Accept()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(conn, word)
		conn.Close()
		if got := readLine(t, p.Out); got != word {
			t.Errorf("the cage reads %q, want %q", got, word)
		}
		<-p.Done()
		if _, err := ls[1].Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a listener outlives its cage: %v", err)
		}
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("the address is the host's")
	}
	if r, err := b.Run(t.Context(), cage.Spec{}, dial, cage.Limits{}); err != nil || r.Exit.Code == 0 {
		t.Errorf("a cage without the listener connects: %+v, %v", r.Exit, err)
	}
	for _, bad := range []string{"127.0.0.1", "192.0.2.1:1"} {
		_, err := b.Start(t.Context(), cage.Spec{Listen: []string{bad}}, dial)
		if err == nil || !strings.Contains(err.Error(), "cannot listen") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestInitIsHidden: pid 1 of the cage cannot be looked into. A shell can (control).
// Root may list the numbers of its descriptors, and no more.
func TestInitIsHidden(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, name := range []string{"environ", "mem", "fd/2", "root/", "cwd/", "exe", "maps"} {
		for pid, ok := range map[string]bool{"1": false, "$$": true} {
			script := "ls /proc/" + pid + "/" + name + " && exec 3</proc/" + pid + "/" + name
			if r := shell(t, b, cage.Spec{}, script); (r.Exit.Code == 0) != ok {
				t.Errorf("%s of %s: exit %d, want ok %v: %s", name, pid, r.Exit.Code, ok, r.Stderr)
			}
		}
	}
	got := output(t, b, cage.Spec{}, `tr "\0" " " </proc/1/cmdline`)
	if got != "/.pi-mcp-init cage-init " {
		t.Errorf("the command line is %q", got)
	}
}

// TestInitSignals: no signal that an agent can send, plain or queued, ends pid 1. Another
// process they end.
func TestInitSignals(t *testing.T) {
	t.Parallel()
	kill := tool(t, "kill")
	got := output(t, open(t), cage.Spec{}, `
		for s in $(seq 1 64); do `+kill+` -$s 1; `+kill+` -q 1 -$s 1; done 2>/dev/null
		true & wait; echo alive`)
	if got != "alive" {
		t.Errorf("got %q", got)
	}
	output(t, open(t), cage.Spec{}, `for s in 1 6 9 11 15; do sleep 60 & `+kill+` -$s $!; ! wait $! || exit 1; done`)
}

// TestProgramSignals: the program has every signal at its default. No shell stands
// between, because some block signals for a moment when they start a program.
func TestProgramSignals(t *testing.T) {
	t.Parallel()
	argv := []string{tool(t, "grep"), "-h", "Sig[IB]", "/proc/self/status"}
	r, err := open(t).Run(t.Context(), cage.Spec{}, argv, cage.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Stdout); got != "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" {
		t.Errorf("got %q", got)
	}
}

// TestKillAll: an agent that kills everything it can kills only what it started.
func TestKillAll(t *testing.T) {
	t.Parallel()
	r := shell(t, open(t), cage.Spec{}, "sleep "+marker(20)+" & kill -0 $! && echo up; kill -9 -1; exit 0")
	if string(r.Stdout) != "up\n" {
		t.Errorf("control: nothing else was running: %s", r.Stderr)
	}
	if r.Exit != (cage.Exit{}) && r.Exit != (cage.Exit{Code: 137, Signal: "SIGKILL"}) {
		t.Errorf("exit %+v", r.Exit)
	}
	if left := processes(t, marker(20)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOrphans: processes that lose their parent are collected. Where pid 1 is a program
// that does not expect any, they stay.
func TestOrphans(t *testing.T) {
	t.Parallel()
	const (
		orphans = "for i in $(seq 200); do (true & exec true); done; n=1; " // a shell could collect its child
		zombies = `n=$(grep -l '^[0-9]* (.*) Z' /proc/[0-9]*/stat 2>/dev/null | wc -l)`
	)
	if got := output(t, open(t), cage.Spec{}, orphans+"while [ $n != 0 ]; do "+zombies+"; done; echo none"); got != "none" {
		t.Errorf("got %q", got)
	}
	control := exec.Command(tool(t, "bwrap"), "--unshare-pid", "--as-pid-1", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
		"/bin/sh", "-c", "("+orphans+"while [ $n -lt 200 ]; do "+zombies+"; done; echo many) & exec cat")
	in, err := control.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := control.StdoutPipe()
	if err == nil {
		err = control.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, out); got != "many" {
		t.Errorf("control: %s", got)
	}
	in.Close()
	if err := control.Wait(); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestLimits: limits hold for the program and cannot be raised; without them it is free.
func TestLimits(t *testing.T) {
	t.Parallel()
	b, root := open(t), tree(t, "w/")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}})}
	script := "head -c 3000 /dev/zero >" + root + "/w/f"
	output(t, b, spec, script) // control
	if r := shell(t, b, cage.Spec{}, "[ $(ulimit -c) = 0 ] && ulimit -c 1"); r.Exit.Code == 0 {
		t.Error("core dumps can be turned on")
	}
	spec.Limits = cage.Rlimits{Processes: 100, FileSize: 2048}
	if r := shell(t, b, spec, script); r.Exit.Code == 0 {
		t.Error("a file grows over the limit")
	}
	// The kernel does not count root's processes. Elsewhere the first process of the cage
	// still does its work when there is no room for another one.
	r := shell(t, b, spec, "for i in $(seq 150); do sleep "+marker(22)+" & done; exit 0")
	if limited := r.Exit.Code != 0; limited != (os.Getuid() != 0) {
		t.Errorf("150 processes: %+v %s", r.Exit, r.Stderr)
	}
	limits := output(t, b, spec, `sed -n 's/^Max \(processes\|file size\) *//p' /proc/self/limits | tr -s ' '`)
	if want := "2048 2048 bytes \n100 100 processes "; limits != want {
		t.Errorf("limits %q, want %q", limits, want)
	}
}

// TestBigOrder: an environment over the size of a message, with any bytes in it.
func TestBigOrder(t *testing.T) {
	t.Parallel()
	spec := cage.Spec{Env: []string{"ODD=\xff\xfe\n\"", "A=" + strings.Repeat("a", 100_000), "B=" + strings.Repeat("b", 100_000),
		"C=" + strings.Repeat("c", 100_000)}}
	r, err := open(t).Run(t.Context(), spec, []string{"/usr/bin/env", "-0"}, cage.Limits{Stdout: 1 << 20})
	if want := strings.Join(spec.Env, "\x00") + "\x00"; err != nil || string(r.Stdout) != want {
		t.Errorf("%d bytes, want %d: %v", len(r.Stdout), len(want), err)
	}
}

// TestReplaced: cages keep the first process that Open found, whatever takes its
// place meanwhile.
func TestReplaced(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Init = filepath.Join(c.StateDir, "program")
	text, err := os.ReadFile(initProgram)
	if err == nil {
		err = os.WriteFile(c.Init, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := cage.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	output(t, b, cage.Spec{}, "true")
	if err := os.Rename(stub(t, "", "exit 9"), c.Init); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		output(t, b, cage.Spec{}, "true")
		os.Remove(filepath.Join(c.StateDir, "init")) // as another server's copy would
	}
}

// TestStopped: a start that is given up leaves nothing, and says so.
func TestStopped(t *testing.T) {
	t.Parallel()
	sleep := marker(21)
	hanging, err := cage.Open(cage.Config{Bwrap: stub(t, help(t), "echo hangs >&2; exec sleep "+sleep), Init: initProgram, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := hanging.Start(ctx, cage.Spec{}, []string{"/bin/true"})
		failed <- err
	}()
	for len(processes(t, sleep)) == 0 {
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left := processes(t, sleep); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestNoDescriptorsLeft: neither a cage that ran nor one that failed costs this process
// a descriptor.
func TestNoDescriptorsLeft(t *testing.T) {
	b := open(t)
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	round := func() {
		shell(t, b, cage.Spec{Listen: []string{"127.0.0.1:17017"}}, "true")
		if _, err := b.Start(t.Context(), cage.Spec{Dir: "/none"}, []string{"/bin/true"}); err == nil {
			t.Fatal("started")
		}
		p, err := b.Start(t.Context(), cage.Spec{}, []string{"/bin/cat"})
		if err != nil {
			t.Fatal(err)
		}
		p.In.Close()
		io.Copy(io.Discard, p.Out)
		<-p.Done()
		p.Out.Close()
		p.Stderr.Close()
	}
	round() // makes what stays
	before := count()
	for range 5 {
		round()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// TestGroup: every process of a cage is in its group, none of this process's threads
// is, and what it limits holds for all users, root included. Without it more run.
func TestGroup(t *testing.T) {
	t.Parallel()
	b, owner := open(t), fmt.Sprintf("test-%d", os.Getpid())
	limits := cgroup.Limits{Processes: cage.FewestProcesses}
	control, err := cgroup.Detect()
	lacks := []string{"no control group"}
	if err == nil {
		_, lacks = control.Trim(limits)
	}
	if len(lacks) > 0 {
		if control != nil {
			if group, err := control.New(owner, "cage", limits); err == nil {
				t.Errorf("%v cannot be had, and there is %v", lacks, group)
			}
		}
		if got := output(t, b, cage.Spec{}, "echo alive"); got != "alive" { // a cage does without
			t.Errorf("got %q", got)
		}
		return
	}
	group, err := control.New(owner, "cage", limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	script := "(for i in $(seq 150); do sleep " + marker(23) + " & done); echo; exec cat"
	for _, tc := range []struct {
		group *cgroup.Group
		held  bool
	}{{group, true}, {nil, false}} {
		p := start(t, b, cage.Spec{Group: tc.group}, "/bin/sh", "-c", script)
		readLine(t, p.Out)
		if n := len(processes(t, marker(23))); (n < 150) != tc.held || n == 0 {
			t.Errorf("%d of 150 processes run; in a group: %t", n, tc.held)
		}
		for _, pid := range append(processes(t, marker(23)), p.PID()) {
			in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if got := strings.Contains(string(in), owner+".cage"); err != nil || got != tc.held {
				t.Errorf("process %d: in the group: %t, not %t, %v", pid, got, tc.held, err)
			}
		}
		tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
		if err != nil || len(tasks) == 0 {
			t.Fatalf("threads %v, %v", tasks, err)
		}
		for _, task := range tasks {
			if in, err := os.ReadFile(task); err == nil && strings.Contains(string(in), owner) {
				t.Errorf("%s of this process: %s", task, in)
			}
		}
		p.Kill()
		<-p.Done()
	}
}
