package cgroup

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A mount is one mounted hierarchy of groups.
type mount struct {
	unified bool     // version 2
	options []string // of version 1: the names of its controllers, among others
	root    string   // the group that is mounted
	point   string   // where
}

// readMounts returns the hierarchies that /proc/self/mountinfo lists below root.
func readMounts(root string) ([]mount, error) {
	lines, err := readLines(root + "/proc/self/mountinfo")
	var found []mount
	for _, line := range lines {
		if m, ok := parseMount(line); ok {
			m.point = root + m.point
			found = append(found, m)
		}
	}
	return found, err
}

// parseMount reads a line of mountinfo, see proc_pid_mountinfo(5). False: it is of
// something else.
func parseMount(line string) (mount, bool) {
	left, right, ok := strings.Cut(line, " - ")
	where, what := strings.Fields(left), strings.Fields(right)
	if !ok || len(where) < 6 || len(what) < 3 || what[0] != "cgroup" && what[0] != "cgroup2" {
		return mount{}, false
	}
	return mount{
		unified: what[0] == "cgroup2",
		options: strings.Split(what[2], ","),
		root:    unescape(where[3]),
		point:   unescape(where[4]),
	}, true
}

// unescape undoes the kernel's octal escapes of blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// dir returns the directory of a group by its path in the hierarchy. False: the
// group is outside of what is mounted, as it can be in a container; the kernel then
// may show paths that start with "/..".
func (m mount) dir(group string) (string, bool) {
	if filepath.Clean(m.root) != m.root || filepath.Clean(group) != group {
		return "", false
	}
	rel, err := filepath.Rel(m.root, group)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.Join(m.point, rel), true
}

// carries reports whether this is the version 1 hierarchy of a resource.
func (m mount) carries(r resource) bool {
	return !m.unified && slices.Contains(m.options, string(r))
}

// readOwn returns the paths of this process's groups by the controller's name, and
// the one of version 2 by "".
func readOwn(root string) (map[string]string, error) {
	lines, err := readLines(root + "/proc/self/cgroup")
	own := make(map[string]string)
	for _, line := range lines {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, name := range strings.Split(parts[1], ",") {
			own[name] = parts[2]
		}
	}
	return own, err
}
