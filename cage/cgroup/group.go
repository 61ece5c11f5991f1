package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Group holds the processes of one agent. Its methods may be called from any
// goroutine.
type Group struct {
	kernel kernel
	dirs   []dir    // never empty; the one that counts processes first
	held   *os.File // dirs[0] of version 2, until Remove
}

// A dir is a group's directory in one hierarchy.
type dir struct {
	path    string
	parent  string
	unified bool
}

// prefix starts the names of all groups.
const prefix = "pi-mcp-"

// names are what owners and agents are called. A dot ends the owner's.
var names = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

// New makes an empty group named pi-mcp-<owner>.<agent> with the given limits. Both
// names are 1 to 64 letters, digits, "-" and "_". Without limits, a group still
// keeps its processes together for Kill. The caller removes it.
func (c *Controller) New(owner, agent string, l Limits) (*Group, error) {
	if !names.MatchString(owner) || !names.MatchString(agent) {
		return nil, fmt.Errorf("cannot name a group after %q and %q", owner, agent)
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	if _, lacking := c.Trim(l); len(lacking) > 0 {
		return nil, errors.New(strings.Join(lacking, "; "))
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	g := &Group{kernel: c.kernel}
	for _, p := range c.chosen(l) {
		if err := g.add(p, prefix+owner+"."+agent, l); err != nil {
			return nil, errors.Join(err, g.rmdir())
		}
	}
	return g, nil
}

// chosen returns where a group with these limits, which can be had, has directories. Of
// version 2 a process is in one group only: the nearest that has them all.
func (c *Controller) chosen(l Limits) (places []place) {
	for i, p := range c.places {
		switch {
		case p.unified && p.holds(l):
			return []place{p}
		case !p.unified && (i == 0 || p.wanted(l)):
			places = append(places, p)
		}
	}
	return places
}

// prepare makes the places ready before the first group.
func (c *Controller) prepare() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.places {
		if !c.ready {
			if err := p.prepare(c.kernel); err != nil {
				return err
			}
		}
	}
	c.ready = true
	return nil
}

// add makes the group's directory in one place. One that is left from earlier, and
// empty, is made anew.
func (g *Group) add(p place, name string, l Limits) error {
	d := dir{path: filepath.Join(p.dir, name), parent: p.dir, unified: p.unified}
	err := g.kernel.mkdir(d.path)
	if errors.Is(err, fs.ErrExist) && g.kernel.rmdir(d.path) == nil {
		err = g.kernel.mkdir(d.path)
	}
	if err != nil {
		return fmt.Errorf("cannot make a group: %w", err)
	}
	g.dirs = append(g.dirs, d)
	if d.unified {
		if g.held, err = os.Open(d.path); err != nil {
			return fmt.Errorf("cannot open a group: %w", err)
		}
	}
	return p.limit(d.path, l)
}

// FD returns the descriptor for SysProcAttr.CgroupFD, of version 2, for as long as
// the group is there. It is -1 otherwise, and UseCgroupFD has to be false then.
func (g *Group) FD() int {
	if g.held == nil {
		return -1
	}
	return int(g.held.Fd()) // -1 when closed, too
}

// Enter calls fork such that the process it starts is in the group from birth, and
// with it all descendants. It must be started by the calling thread; fork also hands
// FD to it. Enter returns fork's error.
//
// An error that is not fork's may come after fork has succeeded: the thread could
// not be taken out of the group again, which counts it from then on. Kill ends what
// was started.
func (g *Group) Enter(fork func() error) (err error) {
	runtime.LockOSThread()
	defer func() {
		if back := g.leave(); back != nil {
			err = errors.Join(err, back) // and the thread ends with its goroutine
			return
		}
		runtime.UnlockOSThread()
	}()
	for _, d := range g.dirs {
		if err := d.join(d.path); err != nil {
			return fmt.Errorf("cannot enter a group: %w", err)
		}
	}
	return fork()
}

// leave takes the calling thread back to where it was.
func (g *Group) leave() error {
	var errs []error
	for _, d := range g.dirs {
		if err := d.join(d.parent); err != nil {
			errs = append(errs, fmt.Errorf("cannot leave a group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// join moves the calling thread, which must be locked, to a group of version 1. The
// kernel reads 0 as the caller and then does without the lock that makes moving any
// other thread take milliseconds. The runtime starts no thread from a locked one, so
// none of this process's others can be born there. Version 2 moves whole processes
// only, and needs none of it.
func (d dir) join(path string) error {
	if d.unified {
		return nil
	}
	return write(path, "tasks", "0")
}

// patience bounds Remove. A process that takes longer to die hangs in the kernel.
const patience = 10 * time.Second

// Remove kills what is left in the group, waits until it is gone, and removes the
// group. It gives up when ctx ends or after ten seconds, and may then be called
// again. A group that is gone already is no error.
func (g *Group) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := g.rmdir()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		err = errors.Join(err, g.Kill())
		select {
		case <-ctx.Done():
			pids, _ := readPids(g.dirs[0].path)
			return fmt.Errorf("cannot remove a group with %d processes: %w", len(pids), err)
		case <-time.After(wait):
		}
	}
}

// rmdir removes the directories, those that are empty.
func (g *Group) rmdir() error {
	var errs []error
	for _, d := range g.dirs {
		if err := g.kernel.rmdir(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 && g.held != nil {
		g.held.Close()
	}
	return errors.Join(errs...)
}
