// Package cage runs one program in one bubblewrap sandbox.
//
// A Spec is a value: what it does not name, the program does not get. The root
// is built up from parts (the system's programs and libraries, a made-up /etc, a
// private /proc and /dev) and never starts from the host's own. A cage that cannot
// be made as asked is an error, never a weaker cage.
//
// The way from a Spec to bubblewrap's arguments is a pure function (plan.go), so
// a policy can be read and compared in a test. Bwrap starts what comes out.
package cage

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"pi-mcp/cage/cageinit"
	"pi-mcp/cage/cgroup"
)

// A Spec says what one program may see and do. The zero Spec gives a read-only
// root with the system's programs, an empty environment, and loopback only.
type Spec struct {
	// Grants are the host's paths, shown at the same places. They must come from
	// Resolve: a path that has become a symlink since is refused at the start.
	Grants Grants

	// Spellings are other ways to write granted paths, through symlinks of the host: see
	// Grants.Spellings. Where the cage has room for it, there is such a symlink, too.
	Spellings []string

	// Binds are places of the caller's own choosing. No agent may be able to
	// change the way to a Source.
	Binds []Bind

	// Env is the whole environment, as NAME=value. It is not shown in any
	// process list: only the program itself and what it starts have it.
	Env []string

	// Dir is the working directory, in the cage. Empty stands for /.
	Dir string

	// Network shares the host's network, with its loopback services and abstract
	// sockets, and makes names resolve. False leaves a loopback of its own.
	Network bool

	// Listen are TCP addresses in the cage, such as 127.0.0.1:17017, that this
	// process accepts connections on: see Proc.Listeners. At most 16.
	Listen []string

	// Unix allows sockets of AF_UNIX. With them every socket file that a grant
	// shows can be connected to, also one that it shows read-only.
	Unix bool

	// Debug allows processes of the cage to look into each other.
	Debug bool

	// Limits bound the program and each process it starts.
	Limits Rlimits

	// Group holds every process of the cage from its first one on, bubblewrap's own
	// included. Nil: none. The caller removes it when Done is closed, or when Start
	// has failed.
	Group *cgroup.Group
}

// Rlimits are limits that the kernel counts. Zero sets none. Core dumps are off.
type Rlimits struct {
	// Processes is how many the cage may have at a time, threads included; 64 or
	// more. The kernel does not count root's: see Spec.Group.
	Processes int64

	FileSize int64 // bytes of any one file

	// Data is how many bytes of memory of its own one process may have, code and what
	// it maps of files excluded. One that has them all is refused more. What starts
	// Node.js or Go needs many times what it uses.
	Data int64

	CPU int64 // seconds of CPU time of one process, which is killed after that
}

// negative reports whether any of them makes no sense.
func (r Rlimits) negative() bool {
	return r.Processes < 0 || r.FileSize < 0 || r.Data < 0 || r.CPU < 0
}

// FewestProcesses is what a cage takes to run anything at all.
const FewestProcesses = 64

// A Bind shows the host's Source at Target. Both are absolute.
type Bind struct {
	Source, Target string
	Write          bool // false: read-only
}

// check refuses what bubblewrap or the kernel would misread. All of bubblewrap's
// arguments travel in one NUL-separated list, so a NUL would start another one.
func (s Spec) check(argv []string) error {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return fmt.Errorf("cannot start a cage without a program: its path must be absolute")
	}
	if slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, "\x00") }) {
		return fmt.Errorf("cannot start %s: an argument contains a NUL byte", argv[0])
	}
	for _, kv := range s.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" || strings.Contains(kv, "\x00") {
			return fmt.Errorf("cannot pass environment entry %q: it is not NAME=value", name)
		}
	}
	for _, b := range s.Binds {
		if !plain(b.Source) || !plain(b.Target) || b.Target == "/" || covers(cageinit.Path, b.Target) {
			return fmt.Errorf("cannot mount %q at %q: both must be absolute and clean", b.Source, b.Target)
		}
	}
	if i := slices.IndexFunc(s.Spellings, func(path string) bool { return !plain(path) }); i >= 0 {
		return fmt.Errorf("cannot make a symlink at %q: it must be absolute and clean", s.Spellings[i])
	}
	if s.Dir != "" && !plain(s.Dir) {
		return fmt.Errorf("cannot use %q as the working directory: it must be absolute and clean", s.Dir)
	}
	if len(s.Listen) > cageinit.MaxListeners {
		return fmt.Errorf("cannot listen on %d addresses: %d is the most", len(s.Listen), cageinit.MaxListeners)
	}
	if s.Limits.negative() || s.Limits.Processes > 0 && s.Limits.Processes < FewestProcesses {
		return fmt.Errorf("cannot limit a cage to %+v: at least %d processes, and 0 for no limit", s.Limits, FewestProcesses)
	}
	return s.Grants.check()
}

func (g Grants) check() error {
	for _, r := range g.rules() {
		if !plain(r.path) {
			return &GrantError{r.mode.String(), r.path, "it did not come from Resolve"}
		}
	}
	return nil
}

// plain reports whether path can be a mount's source or target as it stands.
// bubblewrap follows ".." out of the root it is building.
func plain(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.Contains(path, "\x00")
}

// covers reports whether path is dir or lies below it, component by component:
// /a/b does not cover /a/bc.
func covers(dir, path string) bool {
	return path == dir || below(dir, path)
}

// below reports whether path lies strictly below dir.
func below(dir, path string) bool {
	return path != dir && strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
