package cageinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// memory is when garbage is collected after all. Before that there is none: nothing
// is allocated while a program runs, and a collection that never begins cannot meet
// the runtime's freeze (a stop of the world while a system call begins).
const memory = 32 << 20

// Main is pid 1 of a cage. It does not return. It must be called before the program
// does anything else, with the control socket as descriptor ControlFD.
func Main() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memory)
	runtime.GOMAXPROCS(1) // and the runtime looks at the machine's limits no more
	control, err := open()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cage-init:", err)
		os.Exit(1)
	}
	program, err := prepare(control)
	if err != nil {
		control.Send(Message{Step: Failed, Reason: err.Error()}) // if it fails, nobody listens
		os.Exit(1)
	}
	go watch(control)
	reap(control, program)
}

// open closes everything but the three streams and the control socket. Nothing of an
// agent's is there yet; from now on nothing ever opens this process through /proc.
func open() (Control, error) {
	if os.Getpid() != 1 {
		return Control{}, errors.New("this is only for the first process of a cage")
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return Control{}, fmt.Errorf("cannot hide this process: %w", err)
	}
	if err := closeInherited(); err != nil {
		return Control{}, fmt.Errorf("cannot close what was inherited: %w", err)
	}
	ignoreSignals()
	return NewControl(ControlFD)
}

// closeInherited goes by the close-on-exec mark: what has survived the exec does not
// have it, what the Go runtime has opened since does.
func closeInherited() error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd < 3 || fd == ControlFD {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0) // an error: it was the listing's own
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// prepare does everything up to the program's start and returns its pid.
func prepare(control Control) (pid int, err error) {
	order, err := receive(control)
	if err != nil {
		return 0, fmt.Errorf("cannot read the order: %w", err)
	}
	if err := order.Confinement.verify(); err != nil {
		return 0, err
	}
	files, err := listen(order.Listen) // in the cage's network, that much is known now
	if err != nil {
		return 0, err
	}
	for _, c := range order.Checks {
		if err := c.verify(); err != nil {
			return 0, err
		}
	}
	if err := control.Send(Message{Step: Ready}, files...); err != nil {
		return 0, err
	}
	for _, f := range files {
		f.Close()
	}
	if m, _, err := control.Receive(); err != nil || m.Step != Go {
		return 0, fmt.Errorf("the server says %q instead of go: %w", m.Step, err)
	}
	if pid, err = start(order); err != nil {
		return 0, err
	}
	return pid, control.Send(Message{Step: Started})
}

// receive reads the order.
func receive(control Control) (order Order, err error) {
	_, files, err := control.Receive()
	if err != nil {
		return order, err
	}
	if len(files) != 1 {
		return order, fmt.Errorf("%d files came with it", len(files))
	}
	defer files[0].Close()
	return order, json.NewDecoder(files[0]).Decode(&order)
}

// listen opens the listeners. A socket belongs to the network namespace it was made
// in, so whoever accepts from it accepts what connects inside the cage.
func listen(addresses []string) (files []*os.File, err error) {
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return files, fmt.Errorf("cannot listen in the cage: %w", err)
		}
		f, err := l.(*net.TCPListener).File()
		l.Close()
		if err != nil {
			return files, fmt.Errorf("cannot pass on a listener: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// watch ends this process, and the kernel then ends all others of the cage, when the
// server closes its end or says anything at all.
func watch(control Control) {
	control.Receive()
	os.Exit(1)
}

// reap collects every process that ends, until it is the program, and reports that.
// The wait is a blocking call on a thread of its own and needs no signal.
func reap(control Control, program int) {
	var status unix.WaitStatus
	for {
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == unix.EINTR || err == nil && pid != program {
			continue
		}
		end := Message{Step: Ended, Code: status.ExitStatus()}
		if status.Signaled() {
			end.Code, end.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
		}
		control.Send(end) // into the other end's queue: it is there before this process ends
		os.Exit(end.Code)
	}
}
