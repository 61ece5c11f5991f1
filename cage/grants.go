package cage

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Grants are the paths of the host that a program may use, at the same places in
// the cage. Denied beats Read beats Write; for the rest the nearest rule above a
// path decides. Nothing below a denied path can be granted. The zero Grants give
// nothing.
type Grants struct {
	Write, Read, Denied []string
}

// A mode is what one rule allows. The order is the order of precedence.
type mode int

const (
	write mode = iota
	read
	denied
)

// String is the name of the argument that the rule came in.
func (m mode) String() string { return [...]string{"write", "read", "denied"}[m] }

// A rule is one path of Grants.
type rule struct {
	path string
	mode mode
}

// A GrantError says which path cannot be used as asked, and what would work.
type GrantError struct {
	Arg    string // "write", "read" or "denied"
	Path   string // as it was given
	Reason string
}

func (e *GrantError) Error() string {
	return fmt.Sprintf("cannot use %q in %s: %s", e.Path, e.Arg, e.Reason)
}

// Resolve checks every rule against the file system as it is now and returns the
// same rules with absolute paths free of symlinks, each once, parents first. A rule
// that says no more than the one above it is left out, unless it names a path about
// which Complete would have a rule of its own. Resolve of its own result changes
// nothing as long as the file system does not. The error is a *GrantError.
//
// This is what the caller asked for, to be kept and shown. A start needs what
// Complete makes of it.
//
// A root server's cage has no capabilities: a grant of another user's private
// files passes Resolve and is still unreadable inside.
func (g Grants) Resolve(p Policy) (Grants, error) {
	rules := make(map[string]mode)
	refused := p.places()
	for _, r := range g.rules() {
		path, err := r.resolve(refused, rules)
		if err != nil {
			return Grants{}, err
		}
		if path != "" {
			rules[path] = max(r.mode, rules[path])
		}
	}
	for _, r := range g.rules() {
		if err := r.outsideDenied(rules); err != nil {
			return Grants{}, err
		}
	}
	return collect(rules), nil
}

// rules returns the write rules, then the read ones, then the denied ones: whether
// a missing denied path matters depends on the grants.
func (g Grants) rules() []rule {
	all := make([]rule, 0, len(g.Write)+len(g.Read)+len(g.Denied))
	for m, paths := range [][]string{g.Write, g.Read, g.Denied} {
		for _, path := range paths {
			all = append(all, rule{path, mode(m)})
		}
	}
	return all
}

// outsideDenied refuses a grant below a denied path. Denying is final: a hole in
// a mask would need a mount inside it.
func (r rule) outsideDenied(rules map[string]mode) error {
	if r.mode == denied {
		return nil
	}
	path, err := filepath.EvalSymlinks(r.path)
	if err != nil {
		return r.refuse("it went away while it was checked")
	}
	for path != "/" {
		path = filepath.Dir(path)
		if m, ok := rules[path]; ok && m == denied {
			return r.refuse("it lies inside the denied path %s; drop one of the two", path)
		}
	}
	return nil
}

func (r rule) refuse(format string, args ...any) error {
	return &GrantError{r.mode.String(), r.path, fmt.Sprintf(format, args...)}
}

// collect turns the rules back into Grants, without those that change nothing. A
// grant by name of what would be closed automatically does change something.
func collect(rules map[string]mode) Grants {
	var g Grants
	lists, known := [...]*[]string{write: &g.Write, read: &g.Read, denied: &g.Denied}, newHabits()
	for path, m := range rules {
		if above, ok := nearest(rules, path); !ok || above != m || m != denied && known.touch(path) {
			*lists[m] = append(*lists[m], path)
		}
	}
	for _, list := range lists {
		slices.SortFunc(*list, parentsFirst)
	}
	return g
}

// modes returns the rules by path, the strictest where one path has several.
func (g Grants) modes() map[string]mode {
	rules := make(map[string]mode)
	for _, r := range g.rules() {
		rules[r.path] = max(r.mode, rules[r.path])
	}
	return rules
}

// governing returns the closest rule at or above path.
func governing(rules map[string]mode, path string) (rule, bool) {
	for {
		if m, ok := rules[path]; ok {
			return rule{path, m}, true
		}
		if path == "/" {
			return rule{}, false
		}
		path = filepath.Dir(path)
	}
}

// nearest returns the mode of the closest rule strictly above path.
func nearest(rules map[string]mode, path string) (mode, bool) {
	if path == "/" {
		return 0, false
	}
	r, ok := governing(rules, filepath.Dir(path))
	return r.mode, ok
}

// parentsFirst orders paths so that every directory comes before what is in it. A
// mask mounted before the grant around it would be hidden by that grant.
func parentsFirst(a, b string) int {
	return cmp.Or(
		cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")),
		strings.Compare(a, b),
	)
}

// Under returns the outermost grants that lie below dir, as paths relative to it:
// the directories and the files. Where dir is the target of a Bind, these are the
// mount points that must be there before a start.
func (g Grants) Under(dir string) (dirs, files []string, err error) {
	rules := make(map[string]mode)
	for _, r := range g.rules() {
		if r.mode != denied && below(dir, r.path) {
			rules[r.path] = r.mode
		}
	}
	for path := range rules {
		if _, nested := nearest(rules, path); nested {
			continue
		}
		info, err := os.Lstat(path)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot look at the grant: %w", err)
		}
		rel := strings.TrimPrefix(path, strings.TrimSuffix(dir, "/")+"/")
		if info.IsDir() {
			dirs = append(dirs, rel)
		} else {
			files = append(files, rel)
		}
	}
	slices.Sort(dirs)
	slices.Sort(files)
	return dirs, files, nil
}
