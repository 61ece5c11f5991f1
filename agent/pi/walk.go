package pi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the kernel's own limit (path_resolution(7)).
const maxLinks = 40

// way is how a name leads to a file. names holds the path as it was spelled at
// the start and after every symlink; file has no symlink in it.
type way struct {
	names []string
	file  string
}

// dirs lists the directories that the way touches, each once, nearest the name
// that was asked for first.
func (w way) dirs() []string {
	var dirs []string
	seen := map[string]bool{}
	for _, name := range w.names {
		if dir := filepath.Dir(name); !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// walk follows the symlinks of every component of an absolute path. It does by
// hand what filepath.EvalSymlinks does, because the stations in between say
// where Node.js is (a version manager links both into one directory).
func walk(path string) (way, error) {
	w := way{names: []string{path}}
	done, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		next := filepath.Join(done, part)
		if part == ".." {
			done = next
			continue
		}
		target, err := os.Readlink(next)
		if errors.Is(err, syscall.EINVAL) { // not a symlink
			done = next
			continue
		}
		if err != nil {
			return way{}, w.broken(err)
		}
		if links++; links > maxLinks {
			return way{}, fmt.Errorf("%s leads through more than %d symlinks, or in a circle at %s", path, maxLinks, next)
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
		w.names = append(w.names, filepath.Join(done, filepath.Join(rest...)))
	}
	w.file = done
	return w, nil
}

func (w way) broken(err error) error {
	if len(w.names) > 1 && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is a symlink to %s, which does not exist", w.names[0], w.names[len(w.names)-1])
	}
	return err
}

// lookUp does what a shell does with the name of a command.
func lookUp(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		abs, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		return abs, executable(abs)
	}
	var broken error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if broken == nil && !errors.Is(err, fs.ErrNotExist) {
			broken = err
		}
	}
	if broken != nil {
		return "", fmt.Errorf("no executable %q in PATH (%s): %w", name, path, broken)
	}
	return "", fmt.Errorf("no executable %q in PATH (%s)", name, path)
}

// executable reports why a file cannot be run. fs.ErrNotExist means that there
// is nothing of that name, not even a dangling symlink.
func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		if _, none := os.Lstat(file); errors.Is(none, fs.ErrNotExist) {
			return err
		}
		if _, why := walk(file); why != nil {
			return why
		}
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", file)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable", file)
	}
	return nil
}
