package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Kill sends SIGKILL to every process of the group, also to those that fork
// meanwhile. It does not wait for their ends; Remove does. The group is of no further
// use: what its limits are now is not said. This process itself is never killed.
func (g *Group) Kill() error {
	path := g.dirs[0].path
	err := write(path, "cgroup.kill", "1") // version 2, Linux 5.14
	if !errors.Is(err, fs.ErrNotExist) {
		return gone(err)
	}
	// A group that is full cannot run ahead of the signals.
	if err := write(path, "pids.max", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return gone(err)
	}
	return gone(killAll(path))
}

// gone makes the end of a group, in the middle of something, no error.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

const (
	// passes bounds killAll where forks are not held up: a group without a limit on
	// processes. Remove repeats it.
	passes = 100
	// batch bounds how many descriptors killAll holds.
	batch = 64
)

// killAll signals the processes of a group until it finds no further ones.
func killAll(path string) error {
	killed := map[int]bool{os.Getpid(): true} // in the group while a thread is in Enter
	var errs []error
	for range passes {
		pids, err := readPids(path)
		if err != nil {
			return err
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == 0 || killed[pid] })
		if len(pids) == 0 {
			break
		}
		for some := range slices.Chunk(pids, batch) {
			errs = append(errs, killSome(path, some))
		}
		for _, pid := range pids {
			killed[pid] = true
		}
	}
	return errors.Join(errs...)
}

// killSome signals those of the processes that are in the group. A number may have
// come to mean another process since it was read. So it is turned into a descriptor,
// which cannot, and the group is read again: who is listed then, is in it, and a
// descriptor of anything else under that number is of a process that has ended.
func killSome(path string, pids []int) error {
	fds := make(map[int]int, len(pids))
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	var errs []error
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			fds[pid] = fd
		} else if err != unix.ESRCH {
			errs = append(errs, os.NewSyscallError("pidfd_open", err))
		}
	}
	still, err := readPids(path)
	errs = append(errs, err)
	for _, pid := range still {
		if fd, ok := fds[pid]; ok {
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
				errs = append(errs, os.NewSyscallError("pidfd_send_signal", err))
			}
		}
	}
	return errors.Join(errs...)
}
