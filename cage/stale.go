package cage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BootID returns a name for the time since the machine's last start, in which a
// pid and its start time mean one process. Empty if the kernel does not tell.
func BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Alive reports whether the process that had this pid, start time and boot id is
// still running.
func Alive(pid int, start uint64, boot string) bool {
	p, err := openStale(pid, start, boot)
	if err != nil {
		return false
	}
	defer p.file.Close()
	return !p.ended()
}

// staleTimeout is how long a killed process may take to go.
const staleTimeout = 5 * time.Second

// KillStale kills the process that had this pid, start time and boot id, such as
// the cage of a server that is gone, and what a cage that was only half made has left
// of it, and waits until all have ended. What has ended already is no error. No other
// process is ever signalled.
func KillStale(pid int, start uint64, boot string) error {
	p, err := openStale(pid, start, boot)
	if err == nil {
		err = p.killStale(pid)
	}
	if err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("cannot kill process %d: %w", pid, err)
	}
	if pid <= 0 || boot == "" || boot != BootID() {
		return nil
	}
	return killHalfMade(pid, start)
}

// killStale kills and closes p and waits for its end.
func (p pidfd) killStale(pid int) error {
	defer p.file.Close()
	if err := p.kill(); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	p.file.SetReadDeadline(time.Now().Add(staleTimeout))
	if err := p.wait(); err != nil {
		return fmt.Errorf("process %d is killed and does not go: %w", pid, err)
	}
	return nil
}

// killHalfMade kills what bubblewrap leaves when it is killed while it makes a cage:
// its child, which then waits for it without end and is still of its session. As long
// as that exists no other process can get the number of the session.
func killHalfMade(session int, start uint64) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("cannot look for what is left of process %d: %w", session, err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == session || !halfMade(pid, session, start) {
			continue
		}
		p, err := openPidfd(pid)
		if err != nil {
			continue // it has gone
		}
		if !halfMade(pid, session, start) { // the number was another's when it was opened
			p.file.Close()
			continue
		}
		if err := p.killStale(pid); err != nil {
			return fmt.Errorf("cannot kill process %d, which is left of %d: %w", pid, session, err)
		}
	}
	return nil
}

// soon is the longest that bubblewrap may take to its first child, in clock ticks.
const soon = 60 * 100

func halfMade(pid, session int, start uint64) bool {
	s, err := readStat(pid)
	return err == nil && s.name == "bwrap" && s.session == session && s.start >= start && s.start < start+soon
}

// errGone says that the process of an earlier time is not there any more.
var errGone = errors.New("no such process")

// openStale returns the process if it is still the same. The start time is read
// while the descriptor holds the process, so it is that process's.
func openStale(pid int, start uint64, boot string) (pidfd, error) {
	if pid <= 0 || boot == "" || boot != BootID() {
		return pidfd{}, errGone
	}
	p, err := openPidfd(pid)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread's id
		return pidfd{}, errGone
	}
	if err != nil {
		return pidfd{}, err
	}
	if now, err := startTime(pid); err != nil || now != start || p.ended() {
		p.file.Close()
		return pidfd{}, errGone
	}
	return p, nil
}

// A stat is what is used of /proc/pid/stat, see proc_pid_stat(5).
type stat struct {
	name    string
	session int
	start   uint64 // in clock ticks since boot
}

// readStat reads a process's stat. The name may itself contain spaces and
// parentheses.
func readStat(pid int) (s stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	const first, session, start = 3, 6, 22 // as the page numbers them
	if open < 0 || end < open || len(fields) <= start-first {
		return s, fmt.Errorf("cannot read /proc/%d/stat: too few fields", pid)
	}
	s.name = string(text[open+1 : end])
	s.session, err = strconv.Atoi(string(fields[session-first]))
	if err != nil {
		return s, err
	}
	s.start, err = strconv.ParseUint(string(fields[start-first]), 10, 64)
	return s, err
}

func startTime(pid int) (uint64, error) {
	s, err := readStat(pid)
	return s.start, err
}
