package selftest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attempts are made in this order. Each returns what it achieved, "" for nothing.
var attempts = [...]struct {
	name string
	make func() string
}{
	{"write the root", writeRoot},
	{"have capabilities", capabilities},
	{"gain rights", gainRights},
	{"go unfiltered", unfiltered},
	{"see a network", seeNetwork},
	{"make a Unix socket", unixSocket},
	{"make a user namespace", userNamespace},
	{"mount", mount},
	{"make a set-user-ID file", setuid},
	{"see other processes", otherProcesses},
	{"look into its parent", parent},
	{"see /sys", seeSys},
	{"use kernel keys", kernelKeys},
}

// attempt makes all attempts and looks for the hidden paths.
func attempt(hidden []string) []Result {
	all := []Result{{Name: "see the host's files", Achieved: seeFiles(hidden)}}
	for _, a := range attempts {
		all = append(all, Result{a.name, a.make()})
	}
	return all
}

func seeFiles(hidden []string) string {
	for _, path := range hidden {
		if _, err := os.Lstat(path); err == nil {
			return "it sees " + path
		}
	}
	return ""
}

// writeRoot asks and does not write: access(2) knows of read-only mounts, and root
// without a capability is no exception.
func writeRoot() string {
	for _, dir := range []string{"/", "/usr", "/etc", "/dev"} {
		if unix.Access(dir, unix.W_OK) == nil {
			return "it can write " + dir
		}
	}
	return ""
}

func capabilities() string {
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if bits := status(set); strings.Trim(bits, "0") != "" || bits == "" {
			return fmt.Sprintf("%s is %q", set, bits)
		}
	}
	return ""
}

func gainRights() string {
	if v := status("NoNewPrivs"); v != "1" {
		return fmt.Sprintf("NoNewPrivs is %q, so set-user-ID programs work", v)
	}
	return ""
}

func unfiltered() string {
	if v := status("Seccomp"); v != "2" {
		return fmt.Sprintf("Seccomp is %q, so there is no system call filter", v)
	}
	return ""
}

// status is one line of /proc/self/status.
func status(name string) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func seeNetwork() string {
	devices, err := net.Interfaces()
	if err != nil {
		return "its network devices cannot be listed: " + err.Error()
	}
	for _, d := range devices {
		if d.Flags&net.FlagLoopback == 0 && d.Flags&net.FlagUp != 0 {
			return "it has the network device " + d.Name
		}
	}
	routes, _ := os.ReadFile("/proc/net/route")
	if strings.Count(string(routes), "\n") > 1 { // the first line is a headline
		return "it has a route"
	}
	return ""
}

func unixSocket() string {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	unix.Close(fd)
	return "it made one"
}

func userNamespace() string {
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	if cmd.Run() != nil {
		return ""
	}
	return "it made one"
}

// mount has a target that is not there: only who may mount at all is told so.
func mount() string {
	if err := unix.Mount("none", "/proc/self/no-such-place", "tmpfs", 0, ""); err == unix.EPERM {
		return ""
	}
	return "mount is not refused"
}

func setuid() string {
	f, err := os.CreateTemp("/dev/shm", "selftest-")
	if err != nil {
		return ""
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if unix.Fchmod(int(f.Fd()), unix.S_ISUID|0o700) != nil {
		return ""
	}
	return "it made one in /dev/shm"
}

// otherProcesses are all but the first and this one.
func otherProcesses() string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "/proc cannot be read: " + err.Error()
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != 1 && pid != os.Getpid() {
			return "it sees process " + e.Name()
		}
	}
	return ""
}

// parent is in a cage the first process, which is the server's program.
func parent() string {
	path := fmt.Sprintf("/proc/%d/environ", os.Getppid())
	if _, err := os.ReadFile(path); err != nil {
		return ""
	}
	return "it read " + path
}

func seeSys() string {
	if _, err := os.Lstat("/sys"); err != nil {
		return ""
	}
	return "it is there"
}

func kernelKeys() string {
	if _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false); err == unix.EPERM {
		return ""
	}
	return "keyctl is not refused"
}
