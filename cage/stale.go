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
// the cage of a server that is gone, and waits until it has ended. A process that
// has ended already is no error. No other process is ever signalled.
func KillStale(pid int, start uint64, boot string) error {
	p, err := openStale(pid, start, boot)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot kill process %d: %w", pid, err)
	}
	defer p.file.Close()
	if err := p.kill(); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot kill process %d: %w", pid, err)
	}
	p.file.SetReadDeadline(time.Now().Add(staleTimeout))
	if err := p.wait(); err != nil {
		return fmt.Errorf("process %d is killed and does not go: %w", pid, err)
	}
	return nil
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

// startTime returns field 22 of /proc/pid/stat, see proc_pid_stat(5). The second
// field is the program's name and may itself contain spaces and parentheses.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const first, wanted = 3, 22
	if len(fields) <= wanted-first {
		return 0, fmt.Errorf("cannot read /proc/%d/stat: too few fields", pid)
	}
	return strconv.ParseUint(string(fields[wanted-first]), 10, 64)
}
