package cage

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of the search for paths with automatic rules.
const (
	// maxEntries bounds the directory entries read, in all: a tenth of a second.
	maxEntries = 100_000
	// maxAutomatic bounds the mounts and pins that the rules need, in all. It leaves
	// the caller's own rules more than half of maxMounts.
	maxAutomatic = 400
)

// A search goes through the granted directories, nearest first, and closes what
// the habits name. Symlinks are not followed: what they lead to is either granted,
// and comes by at its own place, or not shown.
type search struct {
	*completion
	habits habits
	queue  []string
	left   int             // entries that may still be read
	mounts map[string]bool // of the rules and their pins
	top    string          // the grant that is searched

	denied, kept, loose, over []string // for the warnings
}

func (c *completion) search(entries int) error {
	s := &search{completion: c, habits: newHabits(), left: entries, mounts: make(map[string]bool)}
	for _, path := range sorted(c.own) {
		if _, nested := nearest(c.own, path); nested || c.own[path] == denied {
			continue
		}
		s.top, s.queue = path, []string{path}
		if err := s.run(); err != nil {
			return err
		}
	}
	s.report()
	return nil
}

func (s *search) run() error {
	for len(s.queue) > 0 && s.left > 0 {
		dir := s.queue[0]
		s.queue = s.queue[1:]
		entries := s.list(dir)
		git := gitDir(dir, entries)
		for _, e := range entries {
			if err := s.look(dir, e, git); err != nil {
				return err
			}
		}
	}
	if s.left == 0 {
		s.warn("%s has too many files to be searched for credentials and scripts: only a part was; "+
			"grant directories below it, or name what to deny", s.top)
		s.left = -1 // said once
	}
	return nil
}

// list returns the entries of a directory in order, as many as may still be read.
// One that cannot be read has none: the program in the cage is the same user.
func (s *search) list(dir string) []fs.DirEntry {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(s.left)
	s.left -= len(entries)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// look decides about one entry: a rule for it, a search in it, or neither.
func (s *search) look(dir string, e fs.DirEntry, git bool) error {
	path := filepath.Join(dir, e.Name())
	m, ok := s.habits.of(path, e.IsDir())
	if !ok && git && slices.Contains(gitScripts[:], e.Name()) {
		m, ok = read, true
	}
	if ok {
		if err := s.close(path, m, e); err != nil {
			return err
		}
	}
	if e.IsDir() && s.rules[path] != denied && enter(e.Name(), git) {
		s.queue = append(s.queue, path)
	}
	return nil
}

// enter reports whether a directory is worth a search. Packages that were
// installed are full of editors' settings that nobody opens, and of a git
// directory's own, only submodules and worktrees have scripts.
func enter(name string, git bool) bool {
	if git {
		return name == "modules" || name == "worktrees"
	}
	return name != "node_modules"
}

// close adds the rule for a path that was found, if it closes anything.
func (s *search) close(path string, m mode, e fs.DirEntry) error {
	if e.Type()&fs.ModeSymlink != 0 {
		real, err := filepath.EvalSymlinks(path)
		if around, ok := governing(s.rules, path); m == read && ok && around.mode == write {
			s.loose = append(s.loose, path)
		}
		if err != nil {
			return nil
		}
		path = real
	} else if !e.IsDir() && !e.Type().IsRegular() {
		return nil // no program reads its settings from there
	}
	around, ok := governing(s.rules, path)
	switch {
	case !ok || around.mode >= m:
		return nil
	case s.named(path):
		s.kept = append(s.kept, path)
		return nil
	case !s.affords(around, path):
		return s.tooMany(path, m)
	}
	s.rules[path] = m
	if m == denied {
		s.denied = append(s.denied, path)
	}
	return nil
}

// affords reports whether the mounts for a rule at path are within the bound, and
// if so counts them.
func (s *search) affords(around rule, path string) bool {
	need := []string{path}
	if around.mode == write { // there will be pins
		need = append(need, between(around.path, path)...)
	}
	need = slices.DeleteFunc(need, func(dir string) bool { return s.mounts[dir] })
	if len(s.mounts)+len(need) > maxAutomatic {
		return false
	}
	for _, dir := range need {
		s.mounts[dir] = true
	}
	return true
}

// tooMany takes a rule that is one too many. Credentials are not shown for lack of
// room; scripts far down in a tree of projects are told of.
func (s *search) tooMany(path string, m mode) error {
	if m == denied {
		return rule{s.top, s.own[s.top]}.refuse("it holds too many places with credentials to mask them all, %s for one; grant directories below it", path)
	}
	s.over = append(s.over, path)
	return nil
}

func (s *search) report() {
	if len(s.denied) > 0 {
		s.warn("denied automatically, because credentials are kept there: %s; what a grant names itself is not", some(s.denied))
	}
	if len(s.kept) > 0 {
		s.warn("open to the agent only because a grant names it: %s", some(s.kept))
	}
	if len(s.loose) > 0 {
		s.warn("the agent can replace these symlinks, and programs outside the cage run or obey what they lead to: %s", some(s.loose))
	}
	if len(s.over) > 0 {
		s.warn("not made read-only, because the grants hold too many of them, although programs outside the cage run or obey them: %s", some(s.over))
	}
}
