package store

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// A server is alive as long as its lock file is locked. The kernel drops the lock
// with the last descriptor, so no crash can leave one behind, and none is passed
// on to programs that are started: descriptors are closed on exec.
//
// The lock is an open file description lock and not flock, because one can ask
// about it without taking it. Whoever asks by taking it, be it for a moment,
// makes a dead server look alive to another one that is just starting.

// register makes this opening an owner.
func (d *DB) register(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of owners: %w", err)
	}
	if err := tighten(dir, 0o700); err != nil {
		return err
	}
	if d.owners, err = os.OpenRoot(dir); err != nil {
		return err
	}
	// An adopter can lock the file before its maker does, and takes it for that of a
	// dead server without rows. The name is then spent.
	for d.lock == nil {
		d.owner = uuid.NewString()
		if d.lock, err = d.claim(d.owner); err != nil {
			return fmt.Errorf("cannot lock owners/%s: %w", d.owner, err)
		}
	}
	return nil
}

// claim locks an owner's file, makes it when it is missing, and writes our pid
// into it. It returns nil if someone else holds the lock. Closing the file
// releases it.
func (d *DB) claim(owner string) (*os.File, error) {
	for {
		f, err := d.owners.OpenFile(owner, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = d.lockFile(f, owner)
		if err == nil {
			return f, nil
		}
		f.Close()
		if errors.Is(err, unix.EAGAIN) {
			return nil, nil
		}
		if !errors.Is(err, errGone) {
			return nil, err
		}
	}
}

// errGone says that the locked file is no longer the one that has the name.
var errGone = errors.New("removed in the meantime")

func (d *DB) lockFile(f *os.File, owner string) error {
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole); err != nil {
		return err
	}
	// Its last holder removes the file before it lets go of the lock.
	have, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := d.owners.Stat(owner); err != nil || !os.SameFile(have, now) {
		return errGone
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return err
}

// OwnerPID tells which process holds an owner's lock. If none does, the owner is
// not alive, and pid is that of its last holder, or 0 when that is not known.
// While another server adopts a dead owner's rows, it is the holder.
func (d *DB) OwnerPID(owner string) (pid int, alive bool) {
	f, err := d.owners.Open(owner)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	text := make([]byte, 32)
	n, _ := f.Read(text)
	pid, _ = strconv.Atoi(strings.TrimSpace(string(text[:n])))
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole)
	return pid, err == nil && whole.Type != unix.F_UNLCK
}
