package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A Dir is the open directory of one agent. It is safe for concurrent use. It
// stays valid when the directory is trashed meanwhile: calls then fail or
// answer from what is left.
type Dir struct{ root *os.Root }

// Close releases the directory. Logs made from it stay open.
func (d *Dir) Close() error { return d.root.Close() }

// Sizes are lengths in bytes of an agent's files; one that is missing counts 0.
type Sizes struct{ Stdout, Stderr, Session int64 }

// Sizes reads the present lengths of the agent's files.
func (d *Dir) Sizes() Sizes {
	size := func(name string) int64 {
		info, err := d.root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		return info.Size()
	}
	return Sizes{Stdout: size(Stdout.file()), Stderr: size(Errors.file()), Session: size(sessionFile)}
}

// Session opens the agent's session file for reading; the caller closes it.
// The agent writes this file: its size and content are not to be trusted.
func (d *Dir) Session() (*os.File, error) {
	f, err := openRegular(d.root, sessionFile)
	if err != nil {
		return nil, fmt.Errorf("cannot open the session file: %w", err)
	}
	return f, nil
}

// WritePi makes the agent's pi directory anew with exactly these files, mode
// 0600; names may have parent directories. Nothing that an agent left there
// survives. No process of the agent may be alive.
func (d *Dir) WritePi(files map[string][]byte) error {
	if err := removeTree(d.root, piDir, ""); err != nil {
		return fmt.Errorf("cannot clear the pi directory: %w", err)
	}
	if err := d.root.Mkdir(piDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the pi directory: %w", err)
	}
	for name, data := range files {
		if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
			return fmt.Errorf("cannot write %q into the pi directory: not a name below it", name)
		}
		path := filepath.Join(piDir, name)
		err := d.root.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = d.root.WriteFile(path, data, 0o600)
		}
		if err != nil {
			return fmt.Errorf("cannot write %s into the pi directory: %w", name, err)
		}
	}
	return nil
}

// MountPoint makes rel, a path below the agent's tmp, ready to be mounted on:
// a directory, or an empty file. Every component on the way must be a real
// directory; a symbolic link or another kind of file in the way is an error
// that names it, since bwrap would follow it out of the tree. What is there
// already stays as it is. No process of the agent may be alive.
func (d *Dir) MountPoint(rel string, dir bool) error {
	if !filepath.IsLocal(rel) || filepath.Clean(rel) == "." || strings.Contains(rel, "\x00") {
		return fmt.Errorf("cannot make the mount point %q: not a path below tmp", rel)
	}
	at := tmpDir
	names := strings.Split(filepath.Clean(rel), "/")
	for i, name := range names {
		at = filepath.Join(at, name)
		if err := d.ensure(at, dir || i < len(names)-1); err != nil {
			return fmt.Errorf("cannot make the mount point %s: %w", filepath.Join(tmpDir, rel), err)
		}
	}
	return nil
}

// ensure makes one directory or empty file unless it is there, and checks that
// it is of that kind. Its parent was checked by the caller.
func (d *Dir) ensure(path string, dir bool) error {
	var err error
	if dir {
		err = d.root.Mkdir(path, 0o700)
	} else {
		var f *os.File
		if f, err = d.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			return f.Close()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := d.root.Lstat(path)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case dir && mode.IsDir(), !dir && mode.IsRegular():
		return nil
	case dir:
		return fmt.Errorf("%s is a %s, not a directory: remove it", path, kindOf(unixKind(mode)))
	default:
		return fmt.Errorf("%s is a %s, not a regular file: remove it", path, kindOf(unixKind(mode)))
	}
}

// openRegular opens a regular file for reading. O_NONBLOCK, because a FIFO
// that nobody writes to would hold the call for ever; it has no effect on
// regular files.
func openRegular(root *os.Root, path string) (*os.File, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &kindError{kindOf(unixKind(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// A kindError says what was found in place of a regular file.
type kindError struct{ kind string }

func (e *kindError) Error() string { return "it is a " + e.kind + ", not a regular file" }
