package cgroup

import (
	"fmt"
	"path/filepath"
)

// Events counts how often a group has met its limits.
type Events struct {
	Refused   int64 // processes and threads that could not be started
	OOMKilled int64 // processes killed for want of memory
}

// sources are the files with these counters: the first two of both versions and of
// version 2, the last of version 1.
var sources = [...]struct {
	file, key string
	count     func(*Events) *int64
}{
	{"pids.events", "max", func(e *Events) *int64 { return &e.Refused }},
	{"memory.events", "oom_kill", func(e *Events) *int64 { return &e.OOMKilled }},
	{"memory.oom_control", "oom_kill", func(e *Events) *int64 { return &e.OOMKilled }},
}

// Events returns the counts since New. What is not limited stays zero, and so does
// everything once the group is removed.
func (g *Group) Events() Events {
	var e Events
	for _, d := range g.dirs {
		for _, s := range sources {
			*s.count(&e) += counter(filepath.Join(d.path, s.file), s.key)
		}
	}
	return e
}

// counter returns a value of a file of "key value" lines, 0 when it is not there.
func counter(path, key string) int64 {
	lines, _ := readLines(path)
	for _, line := range lines {
		var name string
		var n int64
		if _, err := fmt.Sscan(line, &name, &n); err == nil && name == key {
			return n
		}
	}
	return 0
}
