package cage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
)

// A door does for all servers of a state directory what a gate does for one. A start
// on its way has a file there that says what it writes and holds a lock, so that one
// whose server has died is in nobody's way. Looking at the files and adding one takes
// another lock.
type door struct {
	dir string
	mu  sync.Mutex // held by this process while it tries; a lock of another's is not waited for
}

// Waiting for another server is asking again: a blocking lock cannot be given up. A
// start takes milliseconds, with a thousand mounts seconds.
const (
	doorPause = 5 * time.Millisecond
	doorWait  = 30 * time.Second
	openWait  = time.Second
)

// A busyError says which server is in the way; 0 is one that only looks.
type busyError struct{ pid int }

func (e *busyError) Error() string {
	if e.pid == 0 {
		return "another pi-mcp server of this state directory keeps its lock; if it hangs, end it"
	}
	return fmt.Sprintf("the pi-mcp server with pid %d is making a cage in the same directories; if it hangs, end it", e.pid)
}

// openDoor makes the directory and removes what dead servers have left.
func openDoor(stateDir string) (*door, error) {
	d := &door{dir: filepath.Join(stateDir, "starts")}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of starts: %w", err)
	}
	err := d.wait(context.Background(), openWait, func() error { return d.sweep(nil) })
	if _, busy := errors.AsType[*busyError](err); busy {
		err = nil // who is there sweeps, too
	}
	return d, err
}

// enter waits until no start of any server is in p's way. leave must be called.
func (d *door) enter(ctx context.Context, p *passage) (leave func(), err error) {
	if len(p.writes) == 0 { // it disturbs nobody
		return func() {}, nil
	}
	err = d.wait(ctx, doorWait, func() error {
		if err := d.sweep(p); err != nil {
			return err
		}
		leave, err = d.add(p)
		return err
	})
	return leave, err
}

// wait calls f, locked, until it does not return a *busyError or the limit is reached.
func (d *door) wait(ctx context.Context, limit time.Duration, f func() error) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	tick := time.NewTicker(doorPause)
	defer tick.Stop()
	for {
		err := d.locked(f)
		if _, busy := errors.AsType[*busyError](err); !busy {
			return err
		}
		select {
		case <-tick.C:
		case <-late.C:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// locked calls f while nobody else looks at the files or adds one.
func (d *door) locked(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	lock, err := os.OpenFile(filepath.Join(d.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the lock of starts: %w", err)
	}
	defer lock.Close()
	held, err := flock(lock)
	if err != nil {
		return err
	}
	if !held {
		return &busyError{}
	}
	return f()
}

// sweep removes what is nobody's and returns a *busyError if a living start is in p's
// way; a nil p has no way.
func (d *door) sweep(p *passage) error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("cannot read the directory of starts: %w", err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ticketExt {
			continue
		}
		if err := d.pass(filepath.Join(d.dir, e.Name()), p); err != nil {
			return err
		}
	}
	return nil
}

// ticketExt ends the name of a start's file.
const ticketExt = ".start"

// A ticket is what a start's file says.
type ticket struct {
	PID           int
	Start         uint64
	Boot, Space   string // in which the PID means something
	Writes, Nests []cageinit.Raw
}

// space names this process's pid namespace, "" if the kernel does not tell.
func space() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// dead reports whether the server that made it is known to be. Its lock may still be
// held: for a moment by a bubblewrap that it was about to execute when it died.
func (t ticket) dead() bool {
	return t.Boot != "" && t.Space != "" && t.Space == space() && !Alive(t.PID, t.Start, t.Boot)
}

// pass looks at one file. What cannot be read was being written by one that died, for
// the lock is ours.
func (d *door) pass(path string, p *passage) error {
	// NFS locks nothing for those who only read.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) { // it has left, for which it needs no lock
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read of another start: %w", err)
	}
	defer f.Close()
	free, err := flock(f)
	if err != nil {
		return err
	}
	var t ticket
	if free || json.NewDecoder(f).Decode(&t) != nil || t.dead() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot remove what a dead server has left: %w", err)
		}
		return nil
	}
	if p != nil && p.disturbs(&passage{writes: strs(t.Writes), nests: strs(t.Nests)}) {
		return &busyError{t.PID}
	}
	return nil
}

// add makes p's file.
func (d *door) add(p *passage) (leave func(), err error) {
	f, err := os.CreateTemp(d.dir, "*"+ticketExt)
	if err != nil {
		return nil, fmt.Errorf("cannot tell other servers of a start: %w", err)
	}
	leave = func() {
		os.Remove(f.Name())
		f.Close()
	}
	_, err = flock(f)
	if err == nil {
		me := self()
		err = json.NewEncoder(f).Encode(ticket{me.pid, me.start, BootID(), space(), raw(p.writes), raw(p.nests)})
	}
	if err != nil {
		leave()
		return nil, fmt.Errorf("cannot tell other servers of a start: %w", err)
	}
	return leave, nil
}

// flock locks the file, or returns false if somebody else has. The lock goes with the
// descriptor, which no program inherits.
func flock(f *os.File) (held bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	}
	return false, fmt.Errorf("cannot lock %s: %w", f.Name(), err)
}

func strs(list []cageinit.Raw) []string {
	s := make([]string, len(list))
	for i, r := range list {
		s[i] = string(r)
	}
	return s
}
