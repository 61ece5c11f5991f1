package artifacts

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// kindOf names the type of a file from the format bits of its stat mode.
func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symlink"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "device"
	}
	return "other"
}

// unixKind gives the format bits that kindOf knows.
func unixKind(mode fs.FileMode) uint32 {
	switch mode.Type() {
	case 0:
		return unix.S_IFREG
	case fs.ModeDir:
		return unix.S_IFDIR
	case fs.ModeSymlink:
		return unix.S_IFLNK
	case fs.ModeNamedPipe:
		return unix.S_IFIFO
	case fs.ModeSocket:
		return unix.S_IFSOCK
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return unix.S_IFCHR
	}
	return 0
}
