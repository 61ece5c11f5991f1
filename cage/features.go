package cage

import (
	"fmt"
	"regexp"
	"strings"
)

// features are the options that a bubblewrap knows, by name.
type features map[string]bool

// needed are the options without which there is no cage at all. All are in 0.5.
var needed = [...]string{
	"--args", "--bind", "--ro-bind", "--tmpfs", "--perms", "--file", "--symlink", "--dir", "--proc", "--dev",
	"--remount-ro", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-net",
	"--uid", "--gid", "--hostname", "--cap-drop", "--die-with-parent", "--new-session", "--chdir",
	"--json-status-fd", "--as-pid-1", "--seccomp",
}

// A Lack is an option that a bubblewrap has not, and what its cages are without it.
type Lack struct{ Option, Means string }

// wanted are the options that are left out when they are missing.
var wanted = [...]Lack{
	{"--bind-fd", "a granted path that is replaced during a start is found from inside, not kept out"},
	{"--ro-bind-fd", "the same for paths that are shown read-only"},
	{"--disable-userns", "only the system call filter keeps agents from making namespaces"},
	{"--size", "an agent can fill half of the memory with files in /dev/shm"},
	{"--unshare-cgroup-try", "an agent sees the names of the host's control groups"},
}

var option = regexp.MustCompile(`(?m)^\s+(--[a-z0-9-]+)`)

// parseHelp reads the output of bwrap --help. It goes by the options and not by
// the version: distributions move options into older releases.
func parseHelp(help string) features {
	f := make(features)
	for _, match := range option.FindAllStringSubmatch(help, -1) {
		f[match[1]] = true
	}
	return f
}

// missing returns those of options that f has not.
func (f features) missing(options []string) []string {
	var names []string
	for _, name := range options {
		if !f[name] {
			names = append(names, name)
		}
	}
	return names
}

// check refuses a program that cannot make a cage.
func (f features) check(path string) error {
	if len(f) == 0 {
		return fmt.Errorf("cannot use %s: its --help names no options; is it bubblewrap?", path)
	}
	if names := f.missing(needed[:]); len(names) > 0 {
		return fmt.Errorf("cannot use %s: it is too old and has no %s; install bubblewrap 0.8 or later",
			path, strings.Join(names, ", "))
	}
	return nil
}
