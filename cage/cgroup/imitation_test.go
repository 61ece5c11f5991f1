package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
)

// A machine is a directory tree with the files that the kernel shows.
type machine struct {
	mounts string            // /proc/self/mountinfo
	own    string            // /proc/self/cgroup
	files  map[string]string // anything else
}

// The mounts of usual machines.
const (
	pureMounts = "24 1 0:22 / /proc rw - proc proc rw\n" +
		"30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	hybridMounts = "33 32 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" + legacyMounts
	legacyMounts = "35 32 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"36 32 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"37 32 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)

// unified returns the files of a version 2 group.
func unified(dir, controllers, enabled, procs string) map[string]string {
	return map[string]string{
		dir + "/cgroup.type":            "domain\n",
		dir + "/cgroup.controllers":     controllers + "\n",
		dir + "/cgroup.subtree_control": enabled + "\n",
		dir + "/cgroup.procs":           procs,
	}
}

// legacy returns the files of version 1 groups, with the same path in all.
func legacy(group string) map[string]string {
	return map[string]string{
		"/sys/fs/cgroup/pids" + group + "/tasks":                    "",
		"/sys/fs/cgroup/memory" + group + "/tasks":                  "",
		"/sys/fs/cgroup/cpu,cpuacct" + group + "/tasks":             "",
		"/sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_quota_us":  "-1\n",
		"/sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_period_us": "100000\n",
	}
}

// with returns the files of both.
func with(files, more map[string]string) map[string]string {
	for path, content := range more {
		files[path] = content
	}
	return files
}

// me is a cgroup.procs that lists just this process.
func me() string { return strconv.Itoa(os.Getpid()) + "\n" }

// imitate makes the tree.
func imitate(t *testing.T, m machine) string {
	t.Helper()
	root := t.TempDir()
	put(t, root+"/proc/self/mountinfo", m.mounts)
	put(t, root+"/proc/self/cgroup", m.own)
	for path, content := range m.files {
		put(t, root+path, content)
	}
	return root
}

func put(t *testing.T, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// content reads a file of the tree, without its last newline.
func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(data))
}

// newFiles are those that the kernel puts into a new group and that are used here.
// Neither version has swap accounting, and version 2 no cgroup.kill.
var newFiles = map[bool][]string{
	true: {"cgroup.procs", "cgroup.type", "pids.max", "memory.max", "cpu.max"},
	false: {"cgroup.procs", "tasks", "pids.max", "memory.limit_in_bytes",
		"cpu.cfs_quota_us", "cpu.cfs_period_us"},
}

// fill makes a directory as the kernel would.
func fill(files ...string) func(string) error {
	return func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
}

// detect finds what an imitated machine has.
func detect(root string) (*cgroup.Controller, error) {
	return cgroup.DetectIn(root, fill(), os.RemoveAll)
}
