package cage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// births is a directory with an empty file for every cage that is being made. When a
// server is killed in the middle, what bubblewrap has made so far may wait for it
// without end; the next server finds it by the file's name and kills it. A finished
// cage needs no file, it ends with its server.
type births string

// openBirths makes the directory and ends what dead servers have left.
func openBirths(stateDir string) (births, error) {
	dir := filepath.Join(stateDir, "births")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot make the directory of unfinished cages: %w", err)
	}
	b := births(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("cannot read the directory of unfinished cages: %w", err)
	}
	for _, e := range entries {
		if err := b.sweep(e.Name()); err != nil {
			return "", err
		}
	}
	return b, nil
}

// A life names one process.
type life struct {
	pid   int
	start uint64
}

func self() life {
	start, _ := startTime(os.Getpid())
	return life{os.Getpid(), start}
}

// name is the name of p's file.
func (b births) name(server, p life) string {
	return fmt.Sprintf("%d.%d.%d.%d.%s.%s", server.pid, server.start, p.pid, p.start, space(), BootID())
}

// note writes down that p is being made. erase takes that back.
func (b births) note(p *Proc) (erase func(), err error) {
	path := filepath.Join(string(b), b.name(self(), life{p.pid, p.start}))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return func() {}, fmt.Errorf("cannot note that a cage is being made: %w", err)
	}
	return func() { os.Remove(path) }, nil
}

// sweep ends what the file of this name stands for, if its server is dead. In another
// pid namespace, such as another container's, the numbers are those of others: only a
// server there can tell.
func (b births) sweep(name string) error {
	var server, p life
	var rest string
	_, err := fmt.Sscanf(name, "%d.%d.%d.%d.%s", &server.pid, &server.start, &p.pid, &p.start, &rest)
	where, boot, ok := strings.Cut(rest, ".")
	if err != nil || !ok {
		return nil // not ours
	}
	if boot == BootID() && where != space() || Alive(server.pid, server.start, boot) {
		return nil
	}
	if err := KillStale(p.pid, p.start, boot); err != nil {
		return err
	}
	os.Remove(filepath.Join(string(b), name)) // or another server was first
	return nil
}
