package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// files are the probes of what can be read and changed by name.
func files() []probe {
	return []probe{
		{1, "read ~/.ssh/id_rsa, at home and in a read grant", func(w World) (string, error) {
			return anyOf(reading(w.Home+"/.ssh/id_rsa"), reading(w.Read+"/.ssh/id_rsa"))
		}},
		{2, "read the user's ~/.pi/agent/auth.json", func(w World) (string, error) { return read(w.Home + "/.pi/agent/auth.json") }},
		{3, "read /etc/shadow", func(World) (string, error) { return read("/etc/shadow") }},
		{4, "list the agents' directory", func(w World) (string, error) { return list(w.Agents) }},
		{5, "read another agent's token", func(w World) (string, error) { return read(w.Agents + "/other/mcp.json") }},
		{6, "read the server's database", func(w World) (string, error) { return read(filepath.Dir(w.Agents) + "/pi-mcp.db") }},
		{12, "write below a read grant", func(w World) (string, error) {
			return anyOf(writing(w.Read+"/f"), func() (string, error) { return create(w.Read + "/new") })
		}},
		{13, "write in /usr", func(World) (string, error) { return unnamed("/usr") }},
		{14, "write in /", func(World) (string, error) { return unnamed("/") }},
		{15, "write in /etc", func(World) (string, error) { return unnamed("/etc") }},
		{18, "list a masked directory, read below it", func(w World) (string, error) {
			return anyOf(reading(w.Write+"/a/b/hidden/secret"), func() (string, error) { return list(w.Write + "/a/b/hidden") })
		}},
		{19, "read a masked file", func(w World) (string, error) { return read(w.Write + "/hidden") }},
		{20, "rename the parent of a mask", func(w World) (string, error) { return move(w.Write+"/a", w.Write+"/moved") }},
		{21, "hard link from a read grant to a write grant", func(w World) (string, error) {
			to := w.Write + "/hard"
			defer os.Remove(to)
			return "linked", os.Link(w.Read+"/f", to)
		}},
		{22, "follow an own symlink to ~/.ssh", func(w World) (string, error) {
			to := w.Write + "/soft"
			defer os.Remove(to)
			if err := os.Symlink(w.Home+"/.ssh", to); err != nil {
				return "", err
			}
			return read(to + "/id_rsa")
		}},
		{23, "read grant/../.ssh", func(w World) (string, error) { return read(w.Write + "/../home/.ssh/id_rsa") }},
		{24, "rename over the session file", func(w World) (string, error) {
			own := w.Write + "/session"
			defer os.Remove(own)
			if err := os.WriteFile(own, nil, 0o600); err != nil {
				return "", err
			}
			return "renamed", os.Rename(own, w.Session)
		}},
		{74, "chmod a mask", func(w World) (string, error) {
			return anyOf(opening(w.Write+"/a/b/hidden", 0o755), opening(w.Write+"/hidden", 0o644))
		}},
		{75, "write .git/hooks", func(w World) (string, error) { return create(w.Write + "/.git/hooks/pre-commit") }},
	}
}

func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return fmt.Sprintf("%d bytes", len(text)), err
}

func reading(path string) func() (string, error) {
	return func() (string, error) { return read(path) }
}

func list(path string) (string, error) {
	entries, err := os.ReadDir(path)
	return fmt.Sprintf("%d entries", len(entries)), err
}

// writing opens a file for writing and writes nothing.
func writing(path string) func() (string, error) {
	return func() (string, error) {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return "", err
		}
		return "opened " + path, f.Close()
	}
}

func opening(path string, mode os.FileMode) func() (string, error) {
	return func() (string, error) { return "changed", os.Chmod(path, mode) }
}

// create makes a file and removes it.
func create(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer os.Remove(path)
	return "created", f.Close()
}

// unnamed makes a file without a name: however this process ends, nothing stays.
func unnamed(dir string) (string, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", err
	}
	return "created", unix.Close(fd)
}

// move renames there and back.
func move(from, to string) (string, error) {
	if err := os.Rename(from, to); err != nil {
		return "", err
	}
	return "renamed", os.Rename(to, from)
}
