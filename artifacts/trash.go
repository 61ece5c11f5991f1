package artifacts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Trash moves the directory of an agent out of the way in one step, for
// EmptyTrash to delete. No process of the agent may be alive. It is nil when
// the agent has no directory, so it can be repeated; a directory without this
// store's marker is refused and stays.
func (s *Store) Trash(id string) error {
	root, err := s.open(id)
	if err != nil {
		return err
	}
	defer root.Close()
	return s.trash(root, id, id)
}

// trash moves the directory name into the trash under a name that begins with
// as.
func (s *Store) trash(root *os.Root, name, as string) error {
	err := s.marked(root, name)
	if err == nil {
		err = root.Rename(name, filepath.Join(trashDir, as+"."+rand.Text()))
	}
	if err != nil && !gone(root, name) {
		return fmt.Errorf("cannot trash %s: %w", name, err)
	}
	return nil
}

// marked is nil when name is a directory with this store's marker.
func (s *Store) marked(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	// An agent's own directory is never given to its cage, so its mode is as it
	// was made, unless somebody changed it by hand.
	dir, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return s.owns(dir)
}

// gone tells that an error does not matter: another process was faster.
func gone(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// EmptyTrash deletes every trashed directory that carries this store's marker,
// and what a Create that died left behind. It goes on after a failure and
// returns all of them. Directories that the agent made unreadable, or nested
// beyond what a path can name, are deleted like any other; another process
// doing the same at the same time is no error.
func (s *Store) EmptyTrash() error {
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return fmt.Errorf("cannot empty the trash: %w", err)
	}
	defer root.Close()
	errs := []error{s.sweep(root)}
	err = eachName(root, trashDir, func(name string) {
		if err := s.discard(root, filepath.Join(trashDir, name)); err != nil {
			errs = append(errs, fmt.Errorf("cannot delete %s from the trash: %w", name, err))
		}
	})
	return errors.Join(append(errs, err)...)
}

// sweep trashes unfinished directories whose maker is gone: nobody holds the lock
// that Create takes. An empty one was made and not yet locked; its maker makes
// another.
func (s *Store) sweep(root *os.Root) error {
	var errs []error
	err := eachName(root, ".", func(name string) {
		if !strings.HasPrefix(name, newPrefix) {
			return
		}
		lock, err := lockDir(root, name)
		if err != nil {
			return
		}
		defer lock.Close()
		if s.marked(root, name) == nil {
			errs = append(errs, s.trash(root, name, "new"))
			return
		}
		_ = root.Remove(name) // fails unless it is empty, as it should
	})
	return errors.Join(append(errs, err)...)
}

// discard deletes one entry of the trash if it is ours. An empty directory is
// the end of a deletion that was cut short, and removing it loses nothing.
func (s *Store) discard(root *os.Root, path string) error {
	if s.marked(root, path) == nil {
		return removeTree(root, path, markerFile)
	}
	if info, err := root.Lstat(path); err == nil && info.IsDir() {
		_ = root.Remove(path) // fails unless it is empty, as it should
	}
	return nil
}

// eachName calls do for every name in a directory, reading them in batches. An
// entry that do makes or removes may be met or not.
func eachName(root *os.Root, dir string, do func(name string)) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(batch)
		for _, name := range names {
			do(name)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
