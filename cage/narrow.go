package cage

import "path/filepath"

// Narrow returns child's grants with parent's restrictions: the read-only and
// denied paths that parent has inside them. A path that parent cannot use so
// itself is refused with a *GrantError. The result never allows what parent does
// not, and narrowing it once more changes nothing.
//
// Both must come from Resolve or Narrow; the parent's from Complete, or a child
// could name what is closed to its parent automatically. Nothing is looked up: the
// paths mean what they meant then, so a start resolves and narrows afresh.
func Narrow(child, parent Grants) (Grants, error) {
	have, rules := parent.modes(), child.modes()
	for _, path := range sorted(rules) {
		r := rule{path, rules[path]}
		if r.mode == denied {
			continue
		}
		if at, ok := strictest(rules, path); ok && at.mode == denied {
			return Grants{}, r.refuse("it lies inside the denied path %s; drop one of the two", at.path)
		}
		if err := r.within(have); err != nil {
			return Grants{}, err
		}
	}
	inherited := make(map[string]mode)
	for path, m := range have {
		if by, ok := nearest(rules, path); ok && m > by {
			inherited[path] = m
		}
	}
	for path, m := range inherited {
		rules[path] = max(m, rules[path])
	}
	return collect(rules), nil
}

// within refuses a grant that the rules of a parent do not cover.
func (r rule) within(have map[string]mode) error {
	at, ok := strictest(have, r.path)
	switch {
	case !ok && holds(r.path, have):
		return r.refuse("it is more than the calling agent was granted; name paths inside the calling agent's own grants")
	case !ok:
		return r.refuse("the calling agent has no grant for it; name a path inside the calling agent's own grants")
	case at.mode == denied:
		return r.refuse("%s is denied to the calling agent; name a path outside", at.path)
	case at.mode > r.mode:
		return r.refuse("the calling agent may only read %s; ask for read", at.path)
	}
	return nil
}

// holds reports whether a grant lies below path.
func holds(path string, rules map[string]mode) bool {
	for granted, m := range rules {
		if m != denied && below(path, granted) {
			return true
		}
	}
	return false
}

// strictest returns the rule that decides about path: a denied one at or above it,
// which is final, or else the nearest.
func strictest(rules map[string]mode, path string) (rule, bool) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if m, ok := rules[dir]; ok && m == denied {
			return rule{dir, m}, true
		}
		if dir == "/" {
			return governing(rules, path)
		}
	}
}
