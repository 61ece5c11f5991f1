package agent

import (
	"fmt"
	"math"
	"strconv"

	"pi-mcp/cage"
	"pi-mcp/cage/cgroup"
)

// NoLimit is a limit that is never reached.
const NoLimit = math.MaxInt64

// Limits bound what agents may use. Zero allows nothing; where nothing is too little
// for an agent to live at all, its start is refused.
type Limits struct {
	Agents      int64 // live agents of this database
	GroupAgents int64 // live agents of one group
	Message     int64 // bytes of one message
	Stdout      int64 // bytes of stdout.log
	Stderr      int64 // bytes of errors.log

	// On agents that start agents.
	Depth       int64 // of an agent; a client's is 0
	Descendants int64 // of an agent, over its life
	Callbacks   int64 // of an agent, without a client's message in between

	// Of one agent, counted by the kernel. Memory and CPU take a control group, and
	// are left out with a warning where none can be made.
	Processes int64 // processes and threads, those of its cage included; at least 64
	FileSize  int64 // bytes of any one file that it writes
	Memory    int64 // bytes of all its processes; at least 64 MiB
	CPU       int64 // hundredths of a CPU's time

	// Of one agent, looked at every now and then: see Config.CheckPause.
	Tmp      int64 // bytes allocated in its /tmp, /home/agent and /pi-agent; at least 1 MiB
	TmpFiles int64 // names in there; at least 100
	Session  int64 // bytes of its session file; at least 64 KiB
}

// DefaultLimits returns the limits of a server that is not told any. There is none on
// memory and CPU: what fits depends on the machine, and many cannot enforce it.
func DefaultLimits() Limits {
	return Limits{Agents: 32, GroupAgents: 32, Message: 1 << 20, Stdout: 256 << 20, Stderr: 16 << 20,
		Processes: 1024, FileSize: 2 << 30, Memory: NoLimit, CPU: NoLimit,
		Tmp: 2 << 30, TmpFiles: 200_000, Session: 512 << 20, Depth: 3, Descendants: 64, Callbacks: 50}
}

// check refuses limits that leave an agent too little to live.
func (l Limits) check() error {
	for _, f := range []struct {
		flag         string
		limit, least int64
		show         func(int64) string
	}{
		{"--max-processes", l.Processes, cage.FewestProcesses, count},
		{"--max-memory", l.Memory, 64 << 20, size},
		{"--max-cpu", l.CPU, 1, cpus},
		{"--max-tmp", l.Tmp, 1 << 20, size},
		{"--max-tmp-files", l.TmpFiles, 100, count},
		{"--max-session", l.Session, 64 << 10, size},
	} {
		if f.limit < f.least {
			return fmt.Errorf("%s %s is too low: at least %s, or none for no limit", f.flag, f.show(f.limit), f.show(f.least))
		}
	}
	return nil
}

// perProcess is what the kernel limits for each process of an agent. There, zero is
// no limit.
func (l Limits) perProcess() cage.Rlimits {
	return cage.Rlimits{Processes: orZero(l.Processes), FileSize: orZero(max(l.FileSize, 1))}
}

// perGroup is what it limits for all processes of an agent together.
func (l Limits) perGroup() cgroup.Limits {
	return cgroup.Limits{Processes: orZero(l.Processes), MemoryBytes: orZero(l.Memory), CPUPercent: int(orZero(l.CPU))}
}

// orZero is a limit where zero stands for none.
func orZero(limit int64) int64 {
	if limit == NoLimit {
		return 0
	}
	return limit
}

// size shows bytes to people: two digits after the point at most, and not rounded
// where they are a whole number of units.
func size(n int64) string {
	for unit, name := int64(1<<30), 0; name < 3; unit, name = unit>>10, name+1 {
		if n >= unit {
			return strconv.FormatFloat(math.Floor(100*float64(n)/float64(unit))/100, 'f', -1, 64) + [...]string{" GiB", " MiB", " KiB"}[name]
		}
	}
	return count(n) + " bytes"
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// cpus shows hundredths of a CPU.
func cpus(n int64) string { return strconv.FormatFloat(float64(n)/100, 'f', -1, 64) }
