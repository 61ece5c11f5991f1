package artifacts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// cleanTmp checks a path that a caller gave for something in an agent's tmp
// and returns it relative to tmp, "." for tmp itself.
func cleanTmp(arg, path string) (string, error) {
	switch {
	case strings.Contains(path, "\x00"):
		return "", refuse(arg, "a path cannot hold a NUL byte")
	case len(path) > 64<<10:
		return "", refuse(arg, "the path has %d bytes; at most 65536 are taken", len(path))
	case strings.HasPrefix(path, "/"):
		return "", refuse(arg, "%q is absolute; pass the path relative to the agent's /tmp", path)
	case slices.Contains(strings.Split(path, "/"), ".."):
		return "", refuse(arg, `%q holds ".."; pass the path relative to the agent's /tmp, without it`, path)
	}
	return filepath.Clean(path), nil
}

// tmp opens the agent's tmp, the root for everything below it. The agent can
// change what is in it at any time, but nothing above it.
func (d *Dir) tmp() (*os.Root, error) { return d.root.OpenRoot(tmpDir) }

// openTmpFile opens the regular file at a clean path.
func openTmpFile(tmp *os.Root, arg, path string) (*os.File, error) {
	f, err := openRegular(tmp, path)
	var kind *kindError
	if errors.As(err, &kind) {
		if kind.kind == "directory" {
			return nil, refuse(arg, "%q is a directory; list_tmp shows what is in it", path)
		}
		return nil, refuse(arg, "%q is a %s; only regular files can be read", path, kind.kind)
	}
	if err != nil {
		return nil, refusePath(arg, path, err)
	}
	return f, nil
}

// openTmpDir opens the directory at a clean path.
func openTmpDir(tmp *os.Root, path string) (*os.File, error) {
	return tmp.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}
