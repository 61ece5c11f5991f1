package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// write writes to a file that the kernel has made, in one call, and never makes one.
func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// writable asks the kernel, which also knows of read-only mounts.
func writable(dir string, files ...string) error {
	for _, file := range files {
		path := filepath.Join(dir, file)
		if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != nil {
			return fmt.Errorf("%s is not writable by uid %d (%w)", path, os.Geteuid(), err)
		}
	}
	return nil
}

// words returns the words of a file, none when it cannot be read.
func words(dir, file string) []string {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(data))
}

// readPids returns the processes of a group. One of another pid namespace is 0.
func readPids(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, word := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// readLines returns the lines of a file, without their ends.
func readLines(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	return strings.Split(string(data), "\n"), err
}
