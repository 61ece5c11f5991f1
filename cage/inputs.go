package cage

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// open returns the plan's inputs in order. What the plan only needs to exist is
// opened too and closed again. The caller closes the files, also after an error.
func (p *plan) open(program *os.File) ([]*os.File, error) {
	var files []*os.File
	for _, in := range p.inputs {
		f, err := in.open(program)
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	for _, in := range p.points {
		f, err := in.open(program)
		if err != nil {
			return files, err
		}
		f.Close()
	}
	return files, nil
}

func (in input) open(program *os.File) (*os.File, error) {
	if in.program {
		return duplicate(program)
	}
	if in.path == "" {
		return memory(in.data)
	}
	f, err := in.openPath()
	if err != nil {
		return nil, fmt.Errorf("cannot open %s for the cage: %w", in, err)
	}
	return f, nil
}

// openPath opens without reading: O_PATH neither blocks on a pipe nor needs the
// right to read.
func (in input) openPath() (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if in.strict {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	}
	top, err := openat2(unix.AT_FDCWD, in.path, how)
	if err != nil || in.rel == "" {
		return top, err
	}
	defer top.Close()
	how.Resolve = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_BENEATH
	return openat2(int(top.Fd()), in.rel, how)
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot duplicate %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func openat2(dir int, path string, how unix.OpenHow) (*os.File, error) {
	for {
		fd, err := unix.Openat2(dir, path, &how)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case unix.EINTR, unix.EAGAIN: // the kernel saw a rename on the way
			continue
		case unix.ELOOP:
			return nil, fmt.Errorf("a symlink has appeared on the way: %w", err)
		}
		return nil, err
	}
}

// memory returns a file, in memory only, that reads as content.
func memory(content string) (*os.File, error) {
	fd, err := unix.MemfdCreate("cage", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err := f.WriteString(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot fill a file in memory: %w", err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot rewind a file in memory: %w", err)
	}
	return f, nil
}

// packed is the form in which bubblewrap reads arguments from a descriptor.
func packed(args []string) string {
	return strings.Join(args, "\x00") + "\x00"
}
