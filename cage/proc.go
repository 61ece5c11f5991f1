package cage

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
)

// A Proc is a program in its cage.
type Proc struct {
	In          io.WriteCloser // the program's input
	Out, Stderr io.ReadCloser  // its output; Stderr also has bubblewrap's own messages

	pid       int
	start     uint64
	bwrap     pidfd
	control   cageinit.Control // begin reads from it, and after that watch
	listeners []net.Listener
	named     chan struct{} // closed when listen has returned
	done      chan struct{} // closed after exit is set

	mu     sync.Mutex // protects the fields below
	init   *pidfd     // pid 1 of the cage, once bubblewrap has named it
	killed bool       // init is to be killed as soon as it is known
	reaped bool       // pid may be anybody's now
	exit   Exit
}

// discard ends a bubblewrap that has been told nothing, and that nobody else knows of.
func (p *Proc) discard() {
	p.Kill()
	p.bwrap.wait()
	p.reap(nil)
}

// An Exit says how a program ended.
type Exit struct {
	// Code is the program's exit code, or 128 + n if signal n ended it.
	Code int

	// Signal is the name of the signal that ended the program or, from outside, the
	// whole cage, such as SIGKILL after Kill. Empty if the program ended by itself.
	Signal string
}

// newProc takes over pidfd.
func newProc(pid, fd int) (*Proc, error) {
	if fd < 0 {
		unix.Kill(pid, unix.SIGKILL) // our child, and not reaped yet
		unix.Wait4(pid, nil, 0, nil)
		return nil, errors.New("cannot start a cage: this kernel has no pidfds (Linux 5.11 or later is needed)")
	}
	p := &Proc{pid: pid, bwrap: pidfd{polled(fd)}, named: make(chan struct{}), done: make(chan struct{})}
	p.start, _ = startTime(pid) // there until it is reaped, by watch
	return p, nil
}

// PID returns the host's process id of the cage. It is only good for showing, and
// for Alive and KillStale together with StartTime: use Kill and Done.
func (p *Proc) PID() int { return p.pid }

// StartTime returns when the process of PID started, in clock ticks since boot.
func (p *Proc) StartTime() uint64 { return p.start }

// Listeners returns the listeners of Spec.Listen, in that order. What they accept comes
// from inside this cage and from nowhere else. They are closed when Done is.
func (p *Proc) Listeners() []net.Listener { return slices.Clone(p.listeners) }

// Done is closed when no process of the cage is left.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Exit waits for Done and returns how the program ended.
func (p *Proc) Exit() Exit {
	<-p.done
	return p.exit
}

// Kill ends every process in the cage at once. It may be called at any time and
// more than once; Done tells when it has worked.
func (p *Proc) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killLocked()
}

// killLocked kills bubblewrap, whose end takes the cage with it, and what that
// leaves out. Until bubblewrap has named pid 1, the cage's first process waits for
// it without end and belongs to its process group; from then on there is a moment
// in which it has not asked yet to die with bubblewrap.
func (p *Proc) killLocked() {
	if p.reaped {
		return
	}
	p.killed = true
	p.bwrap.kill()
	unix.Kill(-p.pid, unix.SIGKILL)
	if p.init != nil {
		p.init.kill()
	}
}

// watch sees p to its end. The other end of control is held by every process that
// bubblewrap makes before pid 1 has started the program, and then by pid 1 alone: its
// end is the end of all, also of what is killed before it has been named.
func (p *Proc) watch(forget func(*Proc)) {
	end := p.last()
	p.Kill()
	p.bwrap.wait()
	<-p.named
	if p.init != nil { // set by listen, which has returned
		p.init.wait()
		p.init.adopt()
		p.init.file.Close()
	}
	p.control.Close()
	closeAll(p.listeners)
	p.reap(end)
	forget(p)
	close(p.done)
}

// last reads to the end of control and returns the message that tells how the
// program ended, nil if there was none.
func (p *Proc) last() (end *cageinit.Message) {
	for {
		m, files, err := p.control.Receive()
		closeAll(files)
		if err != nil {
			return end
		}
		if m.Step == cageinit.Ended {
			end = &m
		}
	}
}

// A report is one of bubblewrap's status records: the first names pid 1.
type report struct {
	Child     int    `json:"child-pid"`
	Namespace uint64 `json:"pid-namespace"`
}

// listen reads bubblewrap's reports until it has ended, and then sees to it that the
// cage ends, too: what it has made may wait for it without end.
func (p *Proc) listen(status *os.File) {
	defer close(p.named)
	defer status.Close()
	defer p.Kill()
	reports := json.NewDecoder(status)
	for {
		var r report
		if err := reports.Decode(&r); err != nil {
			return
		}
		if r.Child != 0 {
			p.found(r)
		}
	}
}

// found takes note of the cage's pid 1.
func (p *Proc) found(r report) {
	init, ok := openInit(r.Child, r.Namespace)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.init = &init
	if p.killed {
		init.kill()
	}
}

// reap takes bubblewrap's exit status. From here on the pid is free. What the cage
// said about its end is truer: bubblewrap may have been killed after it.
func (p *Proc) reap(end *cageinit.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.bwrap.file.Close()
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(p.pid, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	p.reaped = true
	switch {
	case end != nil:
		p.exit = Exit{end.Code, end.Signal}
	case status.Signaled():
		p.exit = Exit{128 + int(status.Signal()), unix.SignalName(status.Signal())}
	default:
		p.exit = Exit{Code: status.ExitStatus()}
	}
}
