// Package artifacts keeps one directory per agent: its logs, its session file
// and the directories that its cage shows as /tmp, /home/agent and /pi-agent.
//
// Agents write most of what is read here, so nothing below an agent's
// directory is trusted: every access goes through os.Root, files are opened
// without blocking and used only when regular, and answers are bounded in
// memory and size whatever the tree looks like. The package knows directories
// and ids; who may read which is the business of its callers.
package artifacts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Names inside an agent's directory, and beside the agents' directories. What
// begins with a dot can never be an id.
const (
	markerFile  = ".pi-mcp"
	sessionFile = "agent_session.jsonl"
	tmpDir      = "tmp"
	homeDir     = "home"
	piDir       = "pi"

	trashDir  = ".trash"
	newPrefix = ".new-"
)

var idShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// A Store is the directory that holds the agents' directories. It is safe for
// concurrent use, also by several processes.
type Store struct{ root, marker string }

// Open returns the store in the directory root, which is made with mode 0700
// when it is absent. The marker names the database that the directories belong
// to: each new one holds it, and only directories with the same marker are
// opened, trashed or deleted, so two databases may share a root.
func Open(root, marker string) (*Store, error) {
	if marker == "" || marker != strings.TrimSpace(marker) || len(marker) > 512 {
		return nil, fmt.Errorf("cannot open the artifacts: %q cannot mark a directory", marker)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("cannot open the artifacts: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(root, trashDir), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the artifacts directory: %w", err)
	}
	return &Store{root: root, marker: marker}, nil
}

// Root is the directory that the agents' directories are in.
func (s *Store) Root() string { return s.root }

// Paths are the absolute host paths of one agent.
type Paths struct{ Dir, StdoutLog, ErrorLog, Session, Tmp, Home, Pi string }

// Paths returns the paths of the agent id. It touches no disk; the paths are
// for people and for the mount plan, not for opening files by name.
func (s *Store) Paths(id string) Paths {
	dir := filepath.Join(s.root, id)
	return Paths{
		Dir:       dir,
		StdoutLog: filepath.Join(dir, Stdout.file()),
		ErrorLog:  filepath.Join(dir, Errors.file()),
		Session:   filepath.Join(dir, sessionFile),
		Tmp:       filepath.Join(dir, tmpDir),
		Home:      filepath.Join(dir, homeDir),
		Pi:        filepath.Join(dir, piDir),
	}
}

// Create makes the directory of a new agent with empty logs, the given first
// content of the session file, and everything else in place. It appears whole
// or not at all, also when the process dies on the way; EmptyTrash clears what
// is left then. It fails with fs.ErrExist when the agent has a directory.
func (s *Store) Create(id string, session []byte) error {
	root, err := s.open(id)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(id); err == nil {
		return fmt.Errorf("cannot make the directory of agent %s: %w", id, fs.ErrExist)
	}
	name, lock, err := lockedDir(root)
	if err != nil {
		return fmt.Errorf("cannot make the directory of agent %s: %w", id, err)
	}
	defer lock.Close()
	err = s.fill(root, name, session)
	if err == nil {
		err = root.Rename(name, id)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot make the directory of agent %s: %w", id, err),
			removeTree(root, name, markerFile))
	}
	return nil
}

// lockedDir makes a directory and takes its lock, which tells an EmptyTrash in
// another process that somebody is still at work in it. One that such a process
// took for abandoned before it was locked is given up for another.
func lockedDir(root *os.Root) (name string, lock *os.File, err error) {
	for range 100 {
		name = newPrefix + rand.Text()
		if err = root.Mkdir(name, 0o700); err != nil {
			return "", nil, err
		}
		if lock, err = lockDir(root, name); err == nil {
			return name, lock, nil
		}
	}
	return "", nil, err
}

// lockDir locks a directory if nobody else has and it is still there.
func lockDir(root *os.Root, name string) (*os.File, error) {
	dir, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && !same(root, name, dir) {
		err = fs.ErrNotExist
	}
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", name, err)
	}
	return dir, nil
}

// same tells whether dir is still what name stands for.
func same(root *os.Root, name string, dir *os.File) bool {
	now, err := root.Lstat(name)
	if err != nil {
		return false
	}
	was, err := dir.Stat()
	return err == nil && os.SameFile(now, was)
}

// fill puts the marker first: from then on the directory is known as ours.
func (s *Store) fill(root *os.Root, name string, session []byte) error {
	files := []struct {
		name string
		data []byte
	}{
		{markerFile, []byte(s.marker + "\n")},
		{Stdout.file(), nil}, {Errors.file(), nil}, {sessionFile, session},
	}
	for _, f := range files {
		if err := root.WriteFile(filepath.Join(name, f.name), f.data, 0o600); err != nil {
			return err
		}
	}
	for _, dir := range []string{tmpDir, homeDir, piDir} {
		if err := root.Mkdir(filepath.Join(name, dir), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// Agent opens the directory of one agent; the caller closes it. The error is
// fs.ErrNotExist when there is none, and another one when the directory does
// not carry this store's marker.
func (s *Store) Agent(id string) (*Dir, error) {
	root, err := s.open(id)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.OpenRoot(id)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of agent %s: %w", id, err)
	}
	if err := s.owns(dir); err != nil {
		dir.Close()
		return nil, fmt.Errorf("cannot use the directory of agent %s: %w", id, err)
	}
	return &Dir{root: dir}, nil
}

// open opens the store's root for an operation on the agent id.
func (s *Store) open(id string) (*os.Root, error) {
	if !idShape.MatchString(id) {
		return nil, refuse("agent_id", "%q is not an agent id", id)
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return nil, fmt.Errorf("cannot open the artifacts: %w", err)
	}
	return root, nil
}

// owns tells whether the directory carries this store's marker: nil when so.
func (s *Store) owns(dir *os.Root) error {
	f, err := openRegular(dir, markerFile)
	var other *kindError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ELOOP), errors.As(err, &other):
		return fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil: // it could not be looked at, which says nothing of whose it is
		return fmt.Errorf("cannot read its marker: %w", err)
	}
	defer f.Close()
	var buf [1024]byte
	n, err := f.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read its marker: %w", err)
	}
	if strings.TrimSpace(string(buf[:n])) != s.marker {
		return ErrForeign
	}
	return nil
}
