package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A place is a directory of one hierarchy in which groups can be made.
type place struct {
	unified bool
	dir     string
	limits  []resource

	// enable names the controllers that groups in dir do not have yet, of version 2.
	enable []string
	// leave holds processes in dir that have to make way for that: the kernel wants
	// either processes in a group or limits on the groups below.
	leave []int
}

func (p place) String() string {
	var names []string
	for _, r := range p.limits {
		names = append(names, r.label())
	}
	version := 1
	if p.unified {
		version = 2
	}
	return fmt.Sprintf("%s (cgroup v%d at %s)", strings.Join(names, ", "), version, p.dir)
}

// serverGroup is where a server's own process goes to make way.
const serverGroup = prefix + "server"

// prepare makes limits possible on the groups in dir. What it did is undone when it
// fails; otherwise it stays, as it does no harm.
func (p place) prepare(k kernel) error {
	leaf := filepath.Join(p.dir, serverGroup)
	if len(p.leave) > 0 {
		if err := k.mkdir(leaf); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cannot make a group for the server itself: %w", err)
		}
	}
	err := move(p.leave, leaf)
	if err == nil && len(p.enable) > 0 {
		err = write(p.dir, "cgroup.subtree_control", "+"+strings.Join(p.enable, " +"))
	}
	if err != nil && len(p.leave) > 0 {
		err = errors.Join(err, move(p.leave, p.dir), k.rmdir(leaf))
	}
	if err != nil {
		return fmt.Errorf("cannot enable limits below %s: %w", p.dir, err)
	}
	return nil
}

// move puts whole processes of version 2 into a group.
func move(pids []int, dir string) error {
	for _, pid := range pids {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// A setting is what is written to one file of a new group.
type setting struct {
	file, value string
	optional    bool // not every kernel has the file
}

// period is the kernel's default, in microseconds: a group that has used up its
// share of CPU waits at most this long.
const period = 100_000

// settings returns the files for one limit. Their formats are from the kernel's
// admin-guide/cgroup-v2.rst and admin-guide/cgroup-v1.
func (p place) settings(r resource, limit int64) []setting {
	n := strconv.FormatInt(limit, 10)
	quota := strconv.FormatInt(limit*(period/100), 10)
	switch {
	case r == processes:
		return []setting{{file: "pids.max", value: n}}
	case r == memory && p.unified:
		return []setting{{file: "memory.max", value: n}, {file: "memory.swap.max", value: "0", optional: true}}
	case r == memory: // memsw is memory and swap together, and cannot be the lower one
		return []setting{{file: "memory.limit_in_bytes", value: n}, {file: "memory.memsw.limit_in_bytes", value: n, optional: true}}
	case p.unified:
		return []setting{{file: "cpu.max", value: fmt.Sprintf("%s %d", quota, period)}}
	default:
		return []setting{{file: "cpu.cfs_period_us", value: strconv.Itoa(period)}, {file: "cpu.cfs_quota_us", value: quota}}
	}
}

// limit sets those of the limits that belong to this place on its group dir.
func (p place) limit(dir string, l Limits) error {
	for _, r := range p.limits {
		if l.of(r) == 0 {
			continue
		}
		for _, s := range p.settings(r, l.of(r)) {
			err := write(dir, s.file, s.value)
			if err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
				return fmt.Errorf("cannot limit %s: %w", r.label(), err)
			}
		}
	}
	return nil
}

// holds reports whether all limits of l belong to this place.
func (p place) holds(l Limits) bool {
	for _, r := range resources {
		if l.of(r) != 0 && !slices.Contains(p.limits, r) {
			return false
		}
	}
	return true
}

// wanted reports whether a limit of l belongs to this place.
func (p place) wanted(l Limits) bool {
	return slices.ContainsFunc(p.limits, func(r resource) bool { return l.of(r) != 0 })
}
