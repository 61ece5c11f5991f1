package cage

import (
	"path/filepath"
	"slices"
)

// Spellings returns the paths of g, as they were given to Resolve, that lead to what
// they grant through a symlink. They are for Spec.Spellings.
func (g Grants) Spellings() (all []string) {
	for _, r := range g.rules() {
		path := filepath.Clean(r.path)
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path && r.mode != denied {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// leads returns where each spelling leads now, if that is granted. A symlink may have
// been changed since, and then there is nothing to be shown.
func (s Spec) leads() map[string]string {
	rules, to := s.Grants.modes(), make(map[string]string)
	for _, path := range s.Spellings {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if r, ok := governing(rules, real); ok && r.mode != denied {
			to[path] = real
		}
	}
	return to
}

// fixed are places of a cage's own that are no mounts or hold symlinks.
var fixed = [...]string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/run", "/var/run", "/proc", "/dev"}

// spell makes a symlink at each other spelling of a granted path, where the directory
// that it would lie in is the cage's own. Elsewhere a mount shows what the host has.
func (p *plan) spell(s Spec) {
	var made []string
	for _, path := range s.Spellings {
		to, ok := p.host.leads[path]
		if !ok || !p.vacant(s, path) || slices.ContainsFunc(made, func(m string) bool { return covers(m, path) }) {
			continue
		}
		p.add("--symlink", to, path)
		made = append(made, path)
	}
}

// vacant reports whether nothing of the cage is at path, above it or below it. In /tmp
// there is room where it is no mount, in /var/tmp where that is no symlink to it.
func (p *plan) vacant(s Spec, path string) bool {
	if covers(path, "/tmp") || covers(path, "/var/tmp") || below("/var/tmp", path) && !s.Grants.within("/var/tmp") {
		return false
	}
	for _, place := range fixed {
		if covers(place, path) || covers(path, place) {
			return false
		}
	}
	for target := range p.wanted { // every mount
		if target != "/" && (covers(target, path) || covers(path, target)) {
			return false
		}
	}
	return true
}
