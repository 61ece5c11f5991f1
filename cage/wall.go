package cage

import (
	"maps"
	"slices"

	"pi-mcp/cage/cageinit"
	"pi-mcp/cage/landlock"
)

// wall is the second wall of a program that shares the host's network: it lets
// through what the mounts do. Where the kernel has no Landlock, or one of the first
// version, there is none.
func (p *plan) wall(abi int) cageinit.Wall {
	if abi < landlock.Least {
		return cageinit.Wall{}
	}
	tops := []string{"/dev/shm"}
	for _, target := range slices.SortedFunc(maps.Keys(p.mounted), parentsFirst) {
		inside := func(top string) bool { return covers(top, target) }
		if p.mounted[target].mode == write && !slices.ContainsFunc(tops, inside) {
			tops = append(tops, target)
		}
	}
	// Terminals are in /dev, and in /proc is what a process may set of itself.
	return cageinit.Wall{ABI: abi, Write: raw(tops), Files: []cageinit.Raw{"/dev", "/proc"}}
}
