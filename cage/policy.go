package cage

import (
	"fmt"
	"path/filepath"
)

// A Policy is what the server adds to the rules that hold for every grant.
type Policy struct {
	// Forbidden are places of the server's own: its state, its program. No write
	// grant may touch, hold or lie inside one, no read grant may lie inside one,
	// and Complete denies those that a read grant holds. What is missing is ignored.
	Forbidden []string

	// Programs are what the server runs: pi, node, bubblewrap. They hold no secret,
	// but what an agent could change there would run outside every cage. No write
	// grant may be one or lie inside one, and Complete makes those that a write
	// grant holds read-only. What is missing is ignored.
	Programs []string

	// Home is the home directory of the server's user. It cannot be granted as a
	// whole, what is below it can. Empty: no such rule.
	Home string
}

// A reach is how far around a place a kind of grant is refused.
type reach int

const (
	free    reach = iota // not refused
	inward               // the place and what lies inside
	outward              // the place and whatever contains it
	all                  // both
)

// A place is a path that grants must respect.
type place struct {
	path  string
	write reach
	read  reach
	deny  reach
}

// places returns every place, free of symlinks: /home may be one.
func (p Policy) places() []place {
	// The kernel's and the running system's own: a cage has made-up ones there.
	places := spread(nil, place{write: all, read: all}, "/proc", "/sys", "/dev", "/run", "/boot")
	// Programs and settings that the host runs with more rights than the server has.
	places = spread(places, place{write: all, deny: outward},
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
	places = spread(places, place{write: all}, "/nix", "/gnu")
	places = spread(places, place{write: all, read: outward, deny: outward}, "/etc")
	// Directories that hold other people's and other programs' data.
	places = spread(places, place{write: outward, read: outward}, "/tmp", "/var/tmp", "/home", "/root", "/var/lib")
	if p.Home != "" {
		places = spread(places, place{write: outward, read: outward}, p.Home)
	}
	places = spread(places, place{write: inward}, p.Programs...)
	return spread(places, place{write: all, read: inward}, p.Forbidden...)
}

// spread appends like for each path, at the place the path leads to.
func spread(places []place, like place, paths ...string) []place {
	for _, path := range paths {
		like.path = filepath.Clean(path)
		if real, err := filepath.EvalSymlinks(path); err == nil {
			like.path = real
		}
		places = append(places, like)
	}
	return places
}

// refuses returns why a rule of this mode may not name path, or "".
func (p place) refuses(path string, m mode) string {
	far := [...]reach{write: p.write, read: p.read, denied: p.deny}[m]
	switch {
	case m == denied && far == outward && covers(path, p.path):
		return fmt.Sprintf("every cage needs %s; deny paths below it", p.path)
	case covers(p.path, path) && (far == inward || far == all):
		return fmt.Sprintf("%s and what is in it cannot be granted for %s; choose a path outside", p.path, reading(m))
	case path == p.path && far == outward:
		return fmt.Sprintf("%s cannot be granted as a whole; grant a directory below it", p.path)
	case below(path, p.path) && (far == outward || far == all):
		return fmt.Sprintf("it contains %s; grant a directory below it that does not", p.path)
	}
	return ""
}

func reading(m mode) string {
	if m == write {
		return "writing"
	}
	return "reading"
}
