// Package landlock is a second wall around programs that share the host's network.
//
// Such a program is in fewer namespaces than others. Landlock is a part of the kernel
// that knows nothing of namespaces and mounts: a program that has put itself behind it
// writes only beneath the places it has named, and neither it nor what it starts can
// take that back. It needs no rights, but PR_SET_NO_NEW_PRIVS.
package landlock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ABI returns the version of the kernel's Landlock, 0 where it has none or it is
// turned off.
func ABI() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// Least is the first version that a wall can be made with. With an older one no file
// could be moved from one directory to another.
const Least = 2

// A Wall is what the kernel is asked to refuse. The zero Wall is none.
type Wall struct {
	fs     uint64 // refused everywhere but where a Place allows it
	scoped uint64 // refused towards processes outside
}

const (
	// change is what may be done to a file, and create what in a directory.
	change = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	create = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	devices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK // allowed nowhere
)

// Of returns the wall that a version can make, see landlock(7) for what came when.
func Of(abi int) Wall {
	if abi < Least {
		return Wall{}
	}
	w := Wall{fs: change | create | devices}
	if abi < 3 {
		w.fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 5 {
		w.fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		w.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return w
}

// A Place is where writing stays allowed: a file, or a directory and all beneath it.
type Place struct {
	FD     int  // O_PATH is enough
	Dir    bool // what FD is
	Create bool // in a directory: files may also be made, moved and removed
}

// allowed is what w leaves to p.
func (w Wall) allowed(p Place) uint64 {
	access := uint64(change)
	if p.Dir && p.Create {
		access |= create
	}
	return w.fs & access
}

// Enforce puts the calling thread behind w, and all that it starts from then on.
func (w Wall) Enforce(places []Place) error {
	if w == (Wall{}) {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: w.fs, Scoped: w.scoped}
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("cannot make Landlock's rules: %w", errno)
	}
	defer unix.Close(int(rules))
	for _, p := range places {
		if err := w.allow(rules, p); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return fmt.Errorf("cannot obey Landlock's rules: %w", errno)
	}
	return nil
}

func (w Wall) allow(rules uintptr, p Place) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: w.allowed(p), Parent_fd: int32(p.FD)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("cannot add to Landlock's rules: %w", errno)
	}
	return nil
}
