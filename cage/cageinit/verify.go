package cageinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A Check is one mount of the cage as it must look from inside.
type Check struct {
	Path     Raw    // absolute and clean; no part of it may be a symlink
	Dev, Ino uint64 `json:",omitempty"` // what must be there; Ino 0: not known beforehand
	ReadOnly bool   `json:",omitempty"`
	Masked   bool   `json:",omitempty"` // there must be nothing to read
}

// errMoved explains most failures.
var errMoved = errors.New("it was moved or replaced while the cage was made; start again when nothing does that")

// verify compares the mount with what the server expects.
func (c Check) verify() error {
	fd, err := walk(string(c.Path))
	if err != nil {
		return c.fails(fmt.Errorf("%w: %w", err, errMoved))
	}
	defer unix.Close(fd)
	var stat unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &stat)
	if err != nil {
		return c.fails(err)
	}
	if stat.Attributes&stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return c.fails(fmt.Errorf("nothing is mounted there: %w", errMoved))
	}
	if c.Ino != 0 && (c.Ino != stat.Ino || c.Dev != unix.Mkdev(stat.Dev_major, stat.Dev_minor)) {
		return c.fails(fmt.Errorf("something else is mounted there: %w", errMoved))
	}
	if c.ReadOnly {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil {
			return c.fails(err)
		}
		if fs.Flags&unix.ST_RDONLY == 0 {
			return c.fails(errors.New("it can be written"))
		}
	}
	if c.Masked && !masked(fd) {
		return c.fails(errors.New("its mask can be seen through"))
	}
	return nil
}

func (c Check) fails(err error) error {
	return fmt.Errorf("cannot trust the mount at %s: %w", c.Path, err)
}

// walk opens path a component at a time and follows no symlink on the way. openat2
// does the same in one call, and the cage's own filter refuses it.
func walk(path string) (fd int, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if fd, err = unix.Open("/", flags, 0); err != nil {
		return -1, err
	}
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		next, err := unix.Openat(fd, name, flags, 0)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// masked reports whether what fd stands for cannot be read or is empty.
func masked(fd int) bool {
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return errors.Is(err, os.ErrPermission)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		return err == nil && info.Size() == 0
	}
	_, err = f.Readdirnames(1)
	return err == io.EOF
}
