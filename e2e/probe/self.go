package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// self are the probes of what this process was given.
func self() []probe {
	return []probe{
		{52, "gain rights by a set-uid program", func(World) (string, error) {
			got, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			if err == nil && got == 1 {
				err = errors.New("no new privileges")
			}
			return "possible", err
		}},
		{53, "capabilities", capabilities},
		{64, "the host's name", func(w World) (string, error) {
			name, err := os.Hostname()
			if err == nil && name != w.Name {
				err = errors.New(name)
			}
			return "seen", err
		}},
		{65, "descriptors of the server", nil}, // main does these two: it has seen them
		{66, "a descriptor of a directory", nil},
		{67, "the server's secret in the environment", func(w World) (string, error) {
			for _, v := range os.Environ() {
				if strings.Contains(v, w.Decoy) {
					return "found", nil
				}
			}
			return "", errors.New("not there")
		}},
		{68, "type into a terminal", typing},
		{69, "core dumps", func(World) (string, error) {
			var limit unix.Rlimit
			err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
			if err == nil && limit.Max == 0 {
				err = errors.New("off")
			}
			return "allowed", err
		}},
		{71, "host paths in mountinfo", func(w World) (string, error) { return holds("/proc/self/mountinfo", w.Dir) }},
	}
}

func capabilities(World) (string, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasPrefix(name, "Cap") && strings.Trim(value, "\t0") != "" {
			return line, nil
		}
	}
	return "", errors.New("none")
}

// descriptors says what each descriptor over 2 is that this process was started with.
func descriptors() map[int]string {
	found := make(map[int]string)
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return map[int]string{-1: err.Error()}
	}
	for _, e := range dir {
		fd, _ := strconv.Atoi(e.Name())
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if fd > 2 && err == nil && !strings.HasPrefix(name, "anon_inode:[event") { // Go's own
			found[fd] = name
		}
	}
	return found
}

// strays finds a descriptor, or one of a directory.
func strays(inherited map[int]string, dirs bool) (string, error) {
	for fd, name := range inherited {
		var stat unix.Stat_t
		err := unix.Fstat(fd, &stat)
		if !dirs || err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fmt.Sprintf("%d is %s", fd, name), nil
		}
	}
	return "", errors.New("none")
}

// typing makes a terminal of its own, in a session of its own, and types into it.
func typing(World) (string, error) {
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		return "there is a terminal", f.Close()
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer master.Close()
	number, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return "", err
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer terminal.Close()
	cmd := exec.Command("/proc/self/exe", "type")
	cmd.Stdin = terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return "typed", cmd.Run()
}
