package artifacts

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// An agent can close a directory to its owner, who is the server's user, too, and keep
// what it likes in there. To be counted it is opened again: its owner gets all
// rights to it, so that people can delete what is in there, and nobody else gets any. Counting it as too much instead would stop
// agents over a test that wants to see how a program fails; such a test lasts for
// milliseconds, and a look comes every few seconds.

// openings bounds how often a directory is opened that an agent closes again and again.
const openings = 100

// ownerReads are the rights that a count needs.
const ownerReads = unix.S_IRUSR | unix.S_IXUSR

// openClosed is openDirAt that gives the owner the rights to the directory, and to the
// one that it is in, where they lack. The error is EACCES where that cannot be done.
func openClosed(in *os.File, name string) (dir *os.File, err error) {
	for range openings {
		dir, err = openDirAt(in, name)
		if !errors.Is(err, unix.EACCES) || openUp(int(in.Fd())) != nil || openUpAt(in, name) != nil {
			break
		}
	}
	return dir, err
}

// statClosed is fstatat, of the name itself, likewise.
func statClosed(in *os.File, name string, st *unix.Stat_t) (err error) {
	for range openings {
		err = unix.Fstatat(int(in.Fd()), name, st, unix.AT_SYMLINK_NOFOLLOW)
		if err != unix.EACCES || openUp(int(in.Fd())) != nil {
			break
		}
	}
	return err
}

// openUpAt opens up a directory that cannot be opened in any other way yet. The path
// leads to what is open, whatever has come to its name since.
func openUpAt(in *os.File, name string) error {
	fd, err := unix.Openat(int(in.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return openUp(fd)
}

// openUp gives the owner of an open directory all rights, if it lacks those. Of one that
// is somebody else's the kernel refuses it.
func openUp(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&ownerReads == ownerReads {
		return err
	}
	// fchmod takes no descriptor of O_PATH.
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), st.Mode&0o7777|unix.S_IRWXU)
}
