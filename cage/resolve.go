package cage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath is the kernel's PATH_MAX.
const maxPath = 4096

// resolve returns the rule's path without symlinks, or "" for a denied path that
// does not exist and that no grant could show. grants are the rules so far.
func (r rule) resolve(refused []place, grants map[string]mode) (string, error) {
	if err := r.spelled(); err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(r.path)
	if r.mode == denied && errors.Is(err, fs.ErrNotExist) {
		return "", r.missing(grants)
	}
	if err != nil {
		return "", r.unreachable(err)
	}
	for _, p := range refused {
		if why := p.refuses(path, r.mode); why != "" {
			return "", r.refuse("%s", why)
		}
	}
	if r.mode == denied {
		return path, nil
	}
	return path, r.usable(path)
}

// spelled refuses what is not one absolute path.
func (r rule) spelled() error {
	switch {
	case r.path == "":
		return r.refuse("it is empty; give an absolute path")
	case strings.Contains(r.path, "\x00"):
		return r.refuse("it contains a NUL byte")
	case len(r.path) >= maxPath:
		return r.refuse("it is longer than %d bytes", maxPath-1)
	case !filepath.IsAbs(r.path):
		return r.refuse("it is relative; give an absolute path")
	case slices.Contains(strings.Split(r.path, "/"), ".."):
		return r.refuse("it contains ..; give the path it leads to")
	}
	return nil
}

func (r rule) unreachable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return r.refuse("it does not exist; create it or drop it")
	}
	return r.refuse("it cannot be reached: %v", cause(err))
}

// cause takes the system's own words out of an error that repeats the path.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// missing decides about a denied path that is not there. Below a grant the program
// could make it, and a mask cannot be put where nothing is without leaving a new
// file in the user's directory. Elsewhere nothing shows it.
func (r rule) missing(grants map[string]mode) error {
	path, dangling := existing(r.path)
	if dangling {
		return r.refuse("it is a symlink to nothing, so it is unknown what to deny; deny the target or drop it")
	}
	for grant := range grants {
		if covers(grant, path) {
			return r.refuse("it does not exist inside the grant %s; create it or drop it", grant)
		}
	}
	return nil
}

// existing returns path with the part of it that exists resolved, and whether the
// first missing component is a symlink that leads nowhere.
func existing(path string) (resolved string, dangling bool) {
	rest := ""
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest), false
		}
		if _, err := os.Lstat(p); err == nil {
			return "", true
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// usable refuses what is neither a directory nor a regular file, and what this
// process could not use itself: a socket, for one, can be connected to through a
// read-only mount.
func (r rule) usable(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return r.unreachable(err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return r.refuse("it is a %s; only directories and regular files can be granted", kind(info.Mode()))
	}
	if covers("/etc", path) && info.IsDir() {
		return r.refuse("directories of /etc hold credentials; grant the single files")
	}
	access := uint32(unix.R_OK)
	if info.IsDir() {
		access |= unix.X_OK
	}
	if r.mode == write {
		access |= unix.W_OK
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, access, unix.AT_EACCESS); err != nil {
		return r.refuse("this server's user has no %s access to it (%v)", r.mode, err)
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
