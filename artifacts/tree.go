package artifacts

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// batch is how many names of a directory are held at a time.
const batch = 1024

// removeTree deletes the directory top and everything in it, the entry last
// (when not "") after all others. What is no directory is just removed. It is nil when there is
// nothing.
//
// os.Root.RemoveAll would hold a descriptor for every level of the tree and
// stop at a directory that its owner cannot read; an agent can make both. Here
// directories found below top are moved up into it before they are emptied, so
// no path is ever longer than three names and memory does not depend on the
// tree. It must be alone with the tree, except for others that delete it too.
func removeTree(root *os.Root, top, last string) error {
	if info, err := root.Lstat(top); err != nil || !info.IsDir() {
		return absent(root.Remove(top)) // a link, say: nothing behind it is ours
	}
	if err := unlock(root, top); err != nil {
		return err
	}
	for {
		names, err := firstNames(root, top, last)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			break
		}
		for _, name := range names {
			if err := removeEntry(root, top, name); err != nil {
				return err
			}
		}
	}
	if last != "" {
		if err := absent(root.Remove(filepath.Join(top, last))); err != nil {
			return err
		}
	}
	return absent(root.Remove(top))
}

// removeEntry deletes an entry of top, moving its subdirectories up into top.
func removeEntry(root *os.Root, top, name string) error {
	dir := filepath.Join(top, name)
	err := root.Remove(dir)
	if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return absent(err)
	}
	if err := unlock(root, dir); err != nil {
		return err
	}
	for {
		names, err := firstNames(root, dir, "")
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return absent(root.Remove(dir))
		}
		for _, name := range names {
			if err := hoist(root, filepath.Join(dir, name), filepath.Join(top, rand.Text())); err != nil {
				return err
			}
		}
	}
}

// hoist deletes what from names, or moves it to a new name when it is a
// directory with something in it. A directory must be writable to be moved to
// another parent.
func hoist(root *os.Root, from, to string) error {
	err := root.Remove(from)
	if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return absent(err)
	}
	if err := unlock(root, from); err != nil {
		return err
	}
	return absent(root.Rename(from, to))
}

// unlock gives the owner all rights to a directory, when it is one.
func unlock(root *os.Root, dir string) error {
	info, err := root.Lstat(dir)
	if err != nil {
		return absent(err)
	}
	if info.Mode().Perm()&0o700 == 0o700 {
		return nil
	}
	return absent(root.Chmod(dir, 0o700))
}

// firstNames returns some of the names in dir, except one. None means that the
// directory is empty or gone.
func firstNames(root *os.Root, dir, except string) ([]string, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, absent(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(batch)
	if err != nil && err != io.EOF {
		return nil, absent(err)
	}
	kept := names[:0]
	for _, name := range names {
		if name != except {
			kept = append(kept, name)
		}
	}
	return kept, nil
}

// absent turns "it is not there" into success.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
