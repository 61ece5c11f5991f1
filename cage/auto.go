package cage

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Rules are everything that one start obeys.
type Rules struct {
	// Grants are the caller's own and the automatic ones together, for a Spec. A
	// child's rules are narrowed to these, see Narrow.
	Grants Grants

	// Automatic are the rules that were added: only Read and Denied.
	Automatic Grants

	// Warnings say, a sentence each, what the rules do not do although it might be
	// expected of them.
	Warnings []string
}

// Complete adds to resolved grants the rules that nobody has to ask for: p's
// places, credentials and the scripts that the user runs later are closed where a
// grant contains them. It looks at the file system as it is now, so it is called
// at every start, and its result is not stored. It never opens anything.
//
// A path that is itself named in a grant is what the caller wants: it stays as
// granted, with a warning.
//
// The error is a *GrantError where a rule cannot be kept: when a mount shows the
// closed path at a second, granted place, for one.
func (g Grants) Complete(p Policy) (Rules, error) { return g.complete(p, maxEntries) }

// complete is Complete with a bound on the directory entries it reads.
func (g Grants) complete(p Policy, entries int) (Rules, error) {
	c := &completion{own: g.modes(), rules: g.modes(), programs: make(map[string]bool)}
	c.policy(p)
	if err := c.search(entries); err != nil {
		return Rules{}, err
	}
	if err := c.holes(); err != nil {
		return Rules{}, err
	}
	if err := c.aliases(p); err != nil {
		return Rules{}, err
	}
	c.hardLinks()
	var added Grants
	for _, path := range sorted(c.rules) {
		switch m := c.rules[path]; {
		case m == c.own[path] && c.named(path):
		case m == read:
			added.Read = append(added.Read, path)
		default:
			added.Denied = append(added.Denied, path)
		}
	}
	return Rules{collect(c.rules), added, c.warnings}, nil
}

// A completion is a Complete under way.
type completion struct {
	own      map[string]mode // what was asked for
	rules    map[string]mode // that and what was added
	programs map[string]bool // those of rules that come from the policy
	warnings []string
}

func (c *completion) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

func (c *completion) named(path string) bool {
	_, ok := c.own[path]
	return ok
}

// policy closes the server's own places where grants hold them.
func (c *completion) policy(p Policy) {
	for m, paths := range [...][]string{read: p.Programs, denied: p.Forbidden} {
		for _, path := range paths {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				continue // nothing there to show
			}
			if r, ok := governing(c.rules, real); ok && r.mode < mode(m) {
				c.rules[real] = mode(m)
				c.programs[real] = true
			}
		}
	}
}

// holes refuses a grant inside what is denied automatically: there is no way to
// mask the rest of a directory.
func (c *completion) holes() error {
	for _, path := range sorted(c.own) {
		above, ok := governing(c.rules, filepath.Dir(path))
		if m := c.own[path]; m != denied && ok && above.mode == denied && path != "/" {
			return rule{path, m}.refuse("it lies inside %s, which is denied automatically; "+
				"name that path in %s as well, or grant neither it nor what holds it", above.path, m)
		}
	}
	return nil
}

// some lists paths for a sentence, the first few by name.
func some(paths []string) string {
	const shown = 5
	if len(paths) <= shown {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:shown], ", "), len(paths)-shown)
}
