package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mounts are the probes of the file system's shape and of namespaces.
func mounts() []probe {
	return []probe{
		{16, "make a read-only mount writable", func(w World) (string, error) {
			if err := unix.Mount("", w.ReadMount, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
				return "", err
			}
			return unnamed(w.ReadMount)
		}},
		{17, "unmount a mask", func(w World) (string, error) { return "unmounted", unix.Unmount(w.Mask, unix.MNT_DETACH) }},
		{25, "mount a tmpfs", func(w World) (string, error) {
			if err := unix.Mount("probe", w.Write+"/mnt", "tmpfs", 0, ""); err != nil {
				return "", err
			}
			return "mounted", unix.Unmount(w.Write+"/mnt", unix.MNT_DETACH)
		}},
		{26, "fsopen", func(World) (string, error) { return descriptor(unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)) }},
		{27, "open_tree", func(World) (string, error) {
			return descriptor(unix.OpenTree(unix.AT_FDCWD, "/usr", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
		}},
		{28, "unshare a user namespace", func(World) (string, error) { return namespace(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER}) }},
		{29, "clone a user namespace", func(World) (string, error) { return namespace(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}) }},
		{30, "clone3", func(World) (string, error) {
			// Without a size nothing is made, and the kernel says so.
			_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
			return reached(errno, unix.EINVAL)
		}},
		{31, "setns", enter},
		{32, "chroot", func(w World) (string, error) { return "changed", unix.Chroot(w.Write) }},
		{33, "pivot_root", func(World) (string, error) {
			// The root of other processes would change too; this way it is refused late.
			err := unix.PivotRoot("/", "/")
			return reached(err, unix.EBUSY)
		}},
		{34, "make a block device", func(w World) (string, error) { return node(w.Write+"/block", unix.S_IFBLK, 7, 0) }},
		{73, "open_by_handle_at", handle},
		{76, "make a character device", func(w World) (string, error) { return node(w.Write+"/char", unix.S_IFCHR, 1, 1) }},
	}
}

// reached is success if the call got as far as the error that only a caller with
// the right to make it sees.
func reached(err error, far unix.Errno) (string, error) {
	if e, ok := errors.AsType[unix.Errno](err); ok && (e == 0 || e == far) {
		return "allowed: " + e.Error(), nil
	}
	return "allowed", err
}

func descriptor(fd int, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return fmt.Sprint("descriptor ", fd), unix.Close(fd)
}

// namespace starts a process in a new one.
func namespace(attr *syscall.SysProcAttr) (string, error) {
	cmd := exec.Command("/proc/self/exe", "nothing")
	cmd.SysProcAttr = attr
	return "made", cmd.Run()
}

func enter(w World) (string, error) {
	runtime.LockOSThread() // and the thread ends with this process
	for _, path := range []string{w.first("ns/net"), "/proc/self/ns/net", "/proc/self/ns/uts"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil && unix.Setns(fd, 0) == nil {
			return "entered " + path, nil
		}
	}
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return "entered", unix.Setns(fd, 0)
}

func node(path string, kind uint32, major, minor uint32) (string, error) {
	defer os.Remove(path)
	return "made", unix.Mknod(path, kind|0o600, int(unix.Mkdev(major, minor)))
}

// handle opens a file by its number alone, also where it may not ask for the number.
func handle(w World) (string, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, w.Write, 0)
	if err != nil {
		const ext4Root = uint64(2)
		inode := ext4Root
		h = unix.NewFileHandle(1, unsafe.Slice((*byte)(unsafe.Pointer(&inode)), 8))
	}
	at, err := unix.Open(w.Write, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(at)
	return descriptor(unix.OpenByHandleAt(at, h, unix.O_RDONLY|unix.O_CLOEXEC))
}
