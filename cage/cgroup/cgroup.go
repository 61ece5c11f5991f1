// Package cgroup bounds how many processes, how much memory and how much CPU a
// program and all its descendants may have together.
//
// Resource limits cannot do that: RLIMIT_NPROC counts nothing for root, RLIMIT_AS
// breaks node, and each counts one process. A control group can, where the kernel
// lets this process make one: with version 2 below a delegated group, and as root
// beside its own; with version 1 usually as root only.
package cgroup

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// Limits are what the processes of a group may have together. Zero is no limit.
type Limits struct {
	// Processes counts threads too, and every process of the cage's own.
	Processes int64

	// MemoryBytes includes files in memory, such as a tmpfs and the page cache.
	// Swap is not added to it. A process of a group that has reached it is killed.
	MemoryBytes int64

	// CPUPercent is 100 for one CPU's whole time.
	CPUPercent int
}

// check refuses what is no limit.
func (l Limits) check() error {
	if l.Processes < 0 || l.MemoryBytes < 0 || l.CPUPercent < 0 {
		return fmt.Errorf("cannot limit a group to %+v: a limit is positive, or zero for none", l)
	}
	return nil
}

// of returns one limit, in the resource's unit.
func (l Limits) of(r resource) int64 {
	switch r {
	case processes:
		return l.Processes
	case memory:
		return l.MemoryBytes
	default:
		return int64(l.CPUPercent)
	}
}

// without returns l with one limit less.
func (l Limits) without(r resource) Limits {
	switch r {
	case processes:
		l.Processes = 0
	case memory:
		l.MemoryBytes = 0
	default:
		l.CPUPercent = 0
	}
	return l
}

// A resource is named as the kernel names its controller.
type resource string

const (
	processes resource = "pids"
	memory    resource = "memory"
	cpu       resource = "cpu"
)

// resources are in the order in which a group's directories are made: the first one
// counts processes, so that Kill can stop it from growing.
var resources = [...]resource{processes, memory, cpu}

// label names the resource to people.
func (r resource) label() string {
	return map[resource]string{processes: "processes", memory: "memory", cpu: "CPU"}[r]
}

// A Controller makes groups below the groups that this process was in at Detect, or
// those above them. Its
// methods may be called from any goroutine.
type Controller struct {
	kernel kernel
	places []place
	lacks  map[resource]string // why there is no limit of it, and the remedy

	mu    sync.Mutex // protects ready
	ready bool       // the places have been prepared
}

// A kernel makes and removes groups. A plain directory does not fill itself with
// files as a group does, hence the seam.
type kernel struct {
	root  bool // it lets this process write groups that are nobody's in particular
	mkdir func(dir string) error
	rmdir func(dir string) error
}

// host is the real one.
func host() kernel {
	return kernel{
		root:  os.Geteuid() == 0,
		mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
		rmdir: os.Remove,
	}
}

// String says what is limited and where, for a report.
func (c *Controller) String() string {
	var parts []string
	for _, p := range c.places {
		parts = append(parts, p.String())
	}
	return strings.Join(parts, "; ")
}

// Trim returns l without the limits that this machine cannot enforce, and a
// sentence for each of those, with the reason and the remedy. New refuses them.
func (c *Controller) Trim(l Limits) (Limits, []string) {
	var said []string
	for _, r := range resources {
		if why, lacking := c.lacks[r]; lacking && l.of(r) != 0 {
			l = l.without(r)
			said = append(said, fmt.Sprintf("cannot limit %s: %s", r.label(), why))
		}
	}
	return l, said
}
