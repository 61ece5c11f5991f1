package cage

import (
	"strings"

	"pi-mcp/cage/cageinit"
)

// A failure is something that bubblewrap says when it cannot make a cage.
type failure struct {
	says   []string // all of these
	remedy string
}

// failures are searched in order; the texts are those of bubblewrap 0.6 to 0.12.
var failures = [...]failure{
	{[]string{"Creating new namespace failed, likely because the kernel does not support"},
		"This kernel has no user namespaces (CONFIG_USER_NS), and without them there is no cage."},
	{[]string{"new namespace, likely because the kernel does not allow"},
		"User namespaces are not permitted. In a container its seccomp profile forbids them: start it with " +
			"--security-opt seccomp=unconfined. On an old Debian: sysctl kernel.unprivileged_userns_clone=1. " +
			"In a chroot it cannot work."},
	{[]string{"Creating new namespace failed", "ENOSPC"},
		"The limit of user namespaces is reached: raise user.max_user_namespaces (sysctl). Inside another " +
			"sandbox that forbids them it cannot work."},
	{[]string{"Creating new namespace failed", "Resource temporarily unavailable"},
		"This login may start no more processes: raise its limit (ulimit -u)."},
	{[]string{"setting up uid map", "Permission denied"},
		"AppArmor keeps bubblewrap from using user namespaces (Ubuntu 23.10 and later): " + appArmorProfile},
	{[]string{"loopback: Failed RTM_"},
		"The private network could not be set up. On Ubuntu AppArmor is the cause: " + appArmorProfile +
			" In Docker also add --cap-add NET_ADMIN. Under gVisor only the host's network works."},
	{[]string{"Failed to make / slave", "Permission denied"},
		"The container's AppArmor profile forbids mounts: start it with --security-opt apparmor=unconfined."},
	{[]string{"pivot_root", "Operation not permitted"},
		"The container's seccomp profile forbids pivot_root: start it with --security-opt seccomp=unconfined."},
	{[]string{"Can't mount proc on", "Operation not permitted"},
		"The container masks parts of /proc, and the kernel then allows no private one: start it with " +
			"--security-opt systempaths=unconfined (Docker), --security-opt unmask=ALL (podman) or " +
			"procMount: Unmasked (Kubernetes)."},
	{[]string{"/oldroot/dev/", "No such file or directory"},
		"The container has no device files in /dev (null, zero, full, random, urandom, tty): give it a /dev."},
	{[]string{"cannot execute", "no such file or directory"}, notInCage},
	{[]string{"cannot execute", "permission denied"}, notExecutable},
	{[]string{"execvp " + cageinit.Path},
		"This server's own program cannot be executed in the cage: it must be built without cgo (CGO_ENABLED=0)."},
	{[]string{"execvp", "No such file or directory"}, notInCage},
	{[]string{"execvp", "Permission denied"}, notExecutable},
	{[]string{"Unknown option"},
		"This bubblewrap is too old: install 0.8 or later."},
	{[]string{"Exceeded maximum number of arguments"},
		"There are too many paths: grant or deny whole directories instead."},
	{[]string{"Race condition binding dirfd"},
		"A granted path was replaced while the cage was made: start again when nothing moves it."},
	{[]string{"as the working directory"},
		"The working directory is not in the cage: choose one inside a grant, or the default."},
	{[]string{"Can't find source path"},
		"A path was removed while the cage was made: check that it exists, and start again."},
	{[]string{"Can't mkdir", "Permission denied"},
		"The parent of a granted path cannot be opened by this server's user: give the user access to it."},
}

const (
	notInCage = "The program, its interpreter or its dynamic loader is not in the cage: check the shebang line and " +
		"the libraries (ldd), and that they lie in a mounted directory."
	notExecutable = "The program cannot be executed in the cage: check its mode, and that this server's user may read it."
)

const appArmorProfile = "write `abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap " +
	"flags=(unconfined) { userns, include if exists <local/bwrap> }` to /etc/apparmor.d/bwrap and run " +
	"systemctl reload apparmor. (sysctl kernel.apparmor_restrict_unprivileged_userns=0 also works, for every program.)"

// Explain returns why a cage could not be made and what to do, given what bubblewrap
// and the cage's first process said, or "" if that is not known. The errors of Start
// and Run contain it.
func Explain(stderr string) string {
	for _, f := range failures {
		if f.saidIn(stderr) {
			return f.remedy
		}
	}
	return ""
}

func (f failure) saidIn(stderr string) bool {
	for line := range strings.Lines(stderr) {
		ours := strings.HasPrefix(line, "bwrap: ") || strings.HasPrefix(line, cageinit.Command+": ")
		if ours && containsAll(line, f.says) {
			return true
		}
	}
	return false
}

func containsAll(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}
