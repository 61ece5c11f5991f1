package cageinit

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// start starts the program and lets go of its streams, so that their ends are seen
// outside when the program has closed them. Errors stay: the runtime would report a
// bug in this process there.
func start(o Order) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	if err := reachable(string(o.Dir)); err != nil {
		return 0, err
	}
	if err := o.Limits.apply(); err != nil {
		return 0, err
	}
	if err := o.Wall.around(func() error { pid, err = o.execute(); return err }); err != nil {
		return 0, err
	}
	for fd := range 2 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return 0, err
		}
	}
	return pid, nil
}

// execute starts the program as the calling thread's child, which is what that is:
// behind a wall or not.
func (o Order) execute() (pid int, err error) {
	pid, err = syscall.ForkExec(string(o.Argv[0]), plain(o.Argv), &syscall.ProcAttr{
		Dir: string(o.Dir), Env: plain(o.Env), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("cannot execute %s: %w", o.Argv[0], err)
	}
	return pid, nil
}

// reachable tells a missing working directory from a missing program: the start
// would fail for both with the same error.
func reachable(dir string) error {
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return fmt.Errorf("cannot use %s as the working directory: %w", dir, err)
	}
	return nil
}

func plain(list []Raw) []string {
	s := make([]string, len(list))
	for i, r := range list {
		s[i] = string(r)
	}
	return s
}

// apply sets the limits, which the program inherits. They are this process's, too, so
// that there is no moment in which the program has others. It writes no file, and
// has the threads it needs.
func (l Limits) apply() error {
	threads(spare)
	for _, r := range []struct {
		what  int
		value int64
		set   bool
	}{
		{unix.RLIMIT_CORE, 0, true},
		{unix.RLIMIT_FSIZE, l.FileSize, l.FileSize > 0},
		{unix.RLIMIT_NPROC, l.Processes, l.Processes > 0},
		{unix.RLIMIT_DATA, l.Data, l.Data > 0},
		{unix.RLIMIT_CPU, l.CPU, l.CPU > 0},
	} {
		if !r.set {
			continue
		}
		limit := unix.Rlimit{Cur: uint64(r.value), Max: uint64(r.value)}
		if err := unix.Prlimit(0, r.what, &limit, nil); err != nil {
			return fmt.Errorf("cannot set limit %d to %d: %w", r.what, r.value, err)
		}
	}
	return nil
}

// spare is more threads than this process ever uses: one waits for children, one for
// the server, one is the runtime's own, and one may have ended behind a wall.
const spare = 8

// threads has the runtime make n threads and keep them. Later an agent may have used
// up the limit, and a runtime that cannot make a thread gives up.
func threads(n int) {
	var here, gone sync.WaitGroup
	leave := make(chan struct{})
	here.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread() // so that no two share one
			defer runtime.UnlockOSThread()
			here.Done()
			<-leave
		})
	}
	here.Wait()
	close(leave)
	gone.Wait()
}

// ignoreSignals makes every signal that an agent can send harmless. The kernel drops
// what pid 1 has no handler for, but the Go runtime has one for everything; a SIGSEGV
// queued by sigqueue(3) would even look to it like a fault of its own. Notify first:
// the runtime resets in a child what it handles itself, and only that.
func ignoreSignals() {
	signal.Notify(make(chan os.Signal, 1))
	for s := unix.Signal(1); s <= lastSignal; s++ {
		switch s {
		case unix.SIGCHLD, unix.SIGURG:
			// The runtime's: ignoring the first would throw away how children end, the
			// second moves goroutines off their thread. Both do no harm.
		case 32, 33, 34:
			// The C library's. The runtime has no handler for them and so leaves a child
			// what is set here: not ours, and not what this process was started with.
			handle(s, sigDefault)
		default:
			handle(s, sigIgnore)
		}
	}
}

const lastSignal = 64

// The kernel's handlers that are no functions.
const (
	sigDefault = 0
	sigIgnore  = 1
)

// handle sets a handler behind the runtime's back: signal.Ignore would also have the
// child ignore it.
func handle(s unix.Signal, handler uint64) {
	const sigsetBytes = 8
	action := [4]uint64{handler} // struct sigaction of the kernel: handler, flags, restorer, mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, sigsetBytes, 0, 0)
}
