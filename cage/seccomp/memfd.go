package seccomp

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// File returns an open file, in memory only, that holds the encoded filter for
// bubblewrap's --seccomp. It is close-on-exec and read from the start. Its position is
// shared with whoever inherits it, so each bubblewrap needs a File of its own. The
// caller closes it.
func File(o Options) (*os.File, error) {
	program, err := Filter(o)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "seccomp")
	// By offset, which leaves the position where it is.
	if _, err := f.WriteAt(Encode(program), 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot write the filter: %w", err)
	}
	return f, nil
}
