package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// place makes the database's directory and an empty file where they are missing,
// and returns the file's one true path. Two servers that come by different
// symlinks must meet in the same directory of owners.
func place(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("cannot make its directory: %w", err)
	}
	// mknod, because it makes a file without opening it: closing a file drops every
	// lock that SQLite has on it in this process. SQLite itself would make one that
	// all can read.
	err = unix.Mknod(path, unix.S_IFREG|0o600, 0)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("cannot make the file: %w", err)
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := tighten(path+suffix, 0o600); err != nil {
			return "", err
		}
	}
	return path, nil
}

// tighten takes away the permissions of path that go beyond most. No file is no
// error.
func tighten(path string, most fs.FileMode) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&^most != 0 {
		err = os.Chmod(path, info.Mode().Perm()&most)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot make it private: %w", err)
	}
	return nil
}
