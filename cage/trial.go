package cage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A Step is one thing that every cage needs of the kernel, tried by itself. Err says
// what bubblewrap said, and the remedy.
type Step struct {
	Name string
	Err  error
}

// steps come each on top of those before.
var steps = [...]struct {
	name string
	args []string
}{
	{"user namespace", []string{"--unshare-user"}},
	{"network", []string{"--unshare-net"}}, // bubblewrap also sets up its loopback
	{"/proc", []string{"--unshare-pid", "--proc", "/proc"}},
	{"/dev", []string{"--dev", "/dev"}},
}

// Steps tries out what a cage is made of, a piece at a time, and ends with the first
// piece that cannot be had. It is for a report: a start of a cage says the same, but
// not how far it came.
func (b *Bwrap) Steps(ctx context.Context) (all []Step) {
	var args []string
	for _, s := range steps {
		args = append(args, s.args...)
		err := b.try(ctx, args)
		all = append(all, Step{s.name, err})
		if err != nil {
			break
		}
	}
	return all
}

// FollowsSymlinks reports whether this bubblewrap follows a symlink on the way to a
// mount point out of the cage that it is making, and makes files there
// (CVE-2026-87766, fixed in 0.12.0). It is tried out, because distributions move such
// changes into older releases and back out of them. The trial takes place in a
// directory of its own below dir, of which nothing is left.
func (b *Bwrap) FollowsSymlinks(ctx context.Context, dir string) (follows bool, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, fmt.Errorf("cannot use the directory of the trial: %w", err)
	}
	work, err := os.MkdirTemp(dir, "symlink-")
	if err != nil {
		return false, fmt.Errorf("cannot make the directory of the trial: %w", err)
	}
	defer os.RemoveAll(work)
	inside, outside := filepath.Join(work, "inside"), filepath.Join(work, "outside")
	err = errors.Join(os.MkdirAll(filepath.Join(inside, "real"), 0o700), os.Mkdir(outside, 0o700),
		os.Symlink("/oldroot"+outside, filepath.Join(inside, "link")))
	if err != nil {
		return false, fmt.Errorf("cannot prepare the trial: %w", err)
	}
	// Without a symlink it must work, or the trial would show nothing.
	if err := b.try(ctx, []string{"--unshare-user", "--bind", inside, "/w", "--dir", "/w/real/made"}); err != nil {
		return false, err
	}
	// Whether it fails does not matter, only what it has made by then.
	_ = b.try(ctx, []string{"--unshare-user", "--bind", inside, "/w", "--dir", "/w/link/made"})
	_, err = os.Lstat(filepath.Join(outside, "made"))
	return err == nil, ctx.Err()
}

// trialTimeout bounds one trial, which takes milliseconds.
const trialTimeout = 20 * time.Second

// try runs a program that does nothing in a sandbox of args and the system's
// programs. It is none for an agent: it has no filter, and nothing is verified.
func (b *Bwrap) try(ctx context.Context, args []string) error {
	base, err := b.system()
	if err != nil {
		return err
	}
	args = append(append([]string{"--die-with-parent"}, base...), args...)
	said, err := b.print(ctx, append(args, "--", "/bin/sh", "-c", ":"))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return unmade(errSilent, said)
	}
	return nil
}

// system shows the system's programs, as every cage does.
func (b *Bwrap) system() ([]string, error) {
	h, err := survey(b.features, b.void, b.program.path, Spec{})
	if err != nil {
		return nil, err
	}
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, top := range tops {
		if to, ok := h.links[top]; ok {
			args = append(args, "--symlink", to, "/"+top)
		}
	}
	for _, top := range h.dirs {
		args = append(args, "--ro-bind", "/"+top, "/"+top)
	}
	return args, nil
}

// Version returns what this bubblewrap calls itself, such as "0.8.0", and "" if it
// does not say.
func (b *Bwrap) Version(ctx context.Context) string {
	said, err := b.print(ctx, []string{"--version"})
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(said, "bubblewrap"))
}

// print runs bubblewrap to its end and returns the beginning of all that it printed.
// The thread must not end before bubblewrap does: see Bwrap.calls.
func (b *Bwrap) print(ctx context.Context, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, b.path, args...)
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.Stdout = &cut{&said, maxReason}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = trialTimeout
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	return said.String(), err
}

// A cut passes on the first bytes and drops the rest.
type cut struct {
	to   io.Writer
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if _, err := c.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
