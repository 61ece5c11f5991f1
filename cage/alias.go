package cage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A mounted is one line of the kernel's table of mounts.
type mounted struct {
	id, parent string
	dev        string // major:minor
	root       string // what of the file system is mounted
	at         string
}

// A mountTable is all mounts of this process, by id of the mount they are on.
type mountTable struct {
	all  []mounted
	on   map[string][]mounted
	base mounted
}

func readMounts() (mountTable, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mountTable{}, fmt.Errorf("cannot read the mounts, so a second way to a denied path could be missed: %w", err)
	}
	return parseMounts(string(text)), nil
}

// parseMounts reads the format of proc_pid_mountinfo(5).
func parseMounts(text string) mountTable {
	t := mountTable{on: make(map[string][]mounted)}
	ids := make(map[string]bool)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		t.all = append(t.all, mounted{f[0], f[1], f[2], unescape(f[3]), unescape(f[4])})
		ids[f[0]] = true
	}
	for _, m := range t.all {
		if ids[m.parent] && m.parent != m.id {
			t.on[m.parent] = append(t.on[m.parent], m)
		} else if m.at == "/" {
			t.base = m
		}
	}
	return t
}

// unescape undoes the octal escapes that the table has for blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+4 > len(s) {
			return b.String() + s
		}
		n, err := strconv.ParseUint(s[i+1:i+4], 8, 8)
		if err != nil {
			return b.String() + s
		}
		b.WriteString(s[:i])
		b.WriteByte(byte(n))
		s = s[i+4:]
	}
}

// holder returns the mount that shows path, going down from the root as the
// kernel does: a mount may be hidden by a later one further up.
func (t mountTable) holder(path string) mounted {
	here := t.base
	for {
		var next mounted
		for _, m := range t.on[here.id] {
			if covers(m.at, path) && (next.id == "" || len(m.at) < len(next.at)) {
				next = m
			}
		}
		if next.id == "" {
			return here
		}
		here = next
	}
}

// inner is where in its file system the mount shows path.
func (m mounted) inner(path string) string {
	return filepath.Join(m.root, strings.TrimPrefix(path, m.at))
}

// twins returns the other places where the mounts show path or something in it.
func (t mountTable) twins(path string) (places []string) {
	mine := t.holder(path)
	places = t.same(mine, path)
	for _, m := range t.all {
		if below(path, m.at) && t.holder(m.at) == m {
			places = append(places, t.same(m, m.at)...)
		}
	}
	return slices.DeleteFunc(places, func(place string) bool { return covers(path, place) })
}

// same returns where other mounts show what mine shows at path, or a part of it.
func (t mountTable) same(mine mounted, path string) (places []string) {
	inner := mine.inner(path)
	for _, m := range t.all {
		if m.dev != mine.dev || m.id == mine.id {
			continue
		}
		place := m.at
		if covers(m.root, inner) {
			place = filepath.Join(m.at, strings.TrimPrefix(inner, m.root))
		} else if !below(inner, m.root) {
			continue
		}
		if t.holder(place) == m {
			places = append(places, place)
		}
	}
	return places
}

// aliases refuses grants that show a closed path at a second place. bubblewrap's
// mounts are recursive, so a bind mount inside a grant is shown with it.
func (c *completion) aliases(p Policy) error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	closed := c.closed(p)
	for _, path := range sorted(closed) {
		for _, place := range mounts.twins(path) {
			if by, ok := c.opens(place, closed[path]); ok {
				if !c.named(by.path) { // what was added is inside what was asked for
					by, _ = governing(c.own, by.path)
				}
				return by.refuse("it shows %s, which is closed, a second time at %s, because the host has it mounted there too; deny %[2]s or grant less", path, place)
			}
		}
	}
	return nil
}

// closed returns the paths whose rules must hold for every way to them: what is
// denied, here or for every grant, and what is read-only within something that
// can be written.
func (c *completion) closed(p Policy) map[string]mode {
	closed := make(map[string]mode)
	for path, m := range c.rules {
		if above, ok := nearest(c.rules, path); m == denied || m == read && ok && above == write {
			closed[path] = m
		}
	}
	for m, paths := range [...][]string{read: p.Programs, denied: p.Forbidden} {
		for _, path := range paths {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				closed[real] = max(closed[real], mode(m))
			}
		}
	}
	return closed
}

// opens returns the grant that allows more at place, or inside it, than m does.
func (c *completion) opens(place string, m mode) (rule, bool) {
	if r, ok := governing(c.rules, place); ok && r.mode < m {
		return r, true
	}
	for _, path := range sorted(c.rules) {
		if below(place, path) && c.rules[path] < m {
			return rule{path, c.rules[path]}, true
		}
	}
	return rule{}, false
}

// sorted returns the paths of rules, parents first.
func sorted(rules map[string]mode) []string {
	return slices.SortedFunc(maps.Keys(rules), parentsFirst)
}
