package cage

import (
	"path/filepath"
	"slices"
	"strings"
)

// An input is a descriptor to be handed to bubblewrap: an open path or some data.
type input struct {
	path   string // the part that the caller vouches for
	rel    string // below path, where an agent may have planted symlinks
	strict bool   // path itself may not pass through symlinks either
	data   string // when path is empty

	program bool // the first process of cages, which is open already; path is for showing
}

func (in input) String() string { return filepath.Join(in.path, in.rel) }

// A mount is one path of the host in the cage.
type mount struct {
	from    input
	target  string
	mode    mode
	dir     bool // what from is
	granted bool // by Grants, not by a Bind or the root
}

// shown reports whether the host's path is at its own place.
func (m mount) shown() bool { return m.granted || m.from.rel == "" && m.from.path == m.target }

// mounts returns the binds and the grants together, parents first.
func (s Spec) mounts(h host) ([]mount, error) {
	var all []mount
	for _, b := range s.Binds {
		m := mount{from: input{path: b.Source}, target: b.Target, mode: read}
		if b.Write {
			m.mode = write
		}
		all = append(all, m)
	}
	for _, r := range s.Grants.rules() {
		if err := s.apart(r); err != nil {
			return nil, err
		}
		// A grant must be the very path that Resolve found, hence strict.
		all = append(all, mount{input{path: r.path, strict: true}, r.path, r.mode, h.kinds[r.path], true})
	}
	slices.SortStableFunc(all, func(a, b mount) int { return parentsFirst(a.target, b.target) })
	return all, nil
}

// apart refuses a grant whose place in the cage is already something else. Below
// the cage's own /tmp there is room: temporary projects live in the host's.
func (s Spec) apart(r rule) error {
	for _, b := range s.Binds {
		if r.mode == denied || b.Source == b.Target {
			continue
		}
		if covers(r.path, b.Target) || covers(b.Target, r.path) && b.Target != "/tmp" {
			return r.refuse("the cage has its own %s there; grant a path elsewhere", b.Target)
		}
	}
	return nil
}

// inside returns what the mount shows at target, which lies below its own.
func (m mount) inside(target string) input {
	in := m.from
	in.rel = filepath.Join(in.rel, strings.TrimPrefix(target, m.target+"/"))
	return in
}

// between returns the directories strictly between top and path, top down.
func between(top, path string) []string {
	var dirs []string
	for dir := filepath.Dir(path); below(top, dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}
