package agent

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"pi-mcp/agent/pi"
	"pi-mcp/cage"
)

// tools are the programs that starts need. They are looked for at the first
// start and again until they are found: a server without them still lists and
// reads.
type tools struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	bwrap  *cage.Bwrap
	pi     *pi.Install
	old    []*pi.Install       // replaced since; a check of credentials may still be under way
	warm   map[string]*warming // by the key of a pi
}

// install returns the pi to run. Whether it has been replaced is looked at at
// every start; it is searched for again, which runs Node.js, only then.
func (t *tools) install(ctx context.Context, cfg Config) (*pi.Install, error) {
	where := pi.Config{Pi: cfg.Pi, Node: cfg.Node, Path: cfg.Path}
	if known := t.known(); known != nil && known.Current(where) {
		return known, nil
	}
	found, err := pi.Find(ctx, where)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrStopping
	}
	if t.pi != nil && t.pi.Key == found.Key { // somebody has just found the same
		return t.pi, nil
	}
	if t.pi != nil {
		t.old = append(t.old, t.pi)
	}
	t.pi = found
	return t.pi, nil
}

// known is the pi that was found last, nil before that.
func (t *tools) known() *pi.Install {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pi
}

// paths lists the files of the host that pi and cages are run from.
func (t *tools) paths() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pi != nil {
		all = append(all, t.pi.Host...)
		for _, m := range t.pi.Mounts {
			all = append(all, m.Source)
		}
	}
	if t.bwrap != nil {
		all = append(all, t.bwrap.Path())
	}
	return all
}

// cage returns the bubblewrap to run pi in.
func (t *tools) cage(cfg Config) (*cage.Bwrap, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrStopping
	}
	if t.bwrap != nil {
		return t.bwrap, nil
	}
	opened, err := cage.Open(cage.Config{Bwrap: cfg.Bwrap, Init: cfg.Init, StateDir: cfg.StateDir})
	if err != nil {
		return nil, err
	}
	t.bwrap = opened
	return opened, nil
}

// authGrace is how long a check of credentials may go on when the server stops.
const authGrace = 300 * time.Millisecond

// close ends what the tools hold.
func (t *tools) close() {
	t.mu.Lock()
	t.closed = true
	installs, bwrap := t.old, t.bwrap
	if t.pi != nil {
		installs = append(installs, t.pi)
	}
	t.mu.Unlock()
	for _, in := range installs {
		in.Close(authGrace)
	}
	if bwrap != nil {
		bwrap.Close()
	}
}

// grepPath is the host's grep; it is at the same place in every cage.
func grepPath(dirs string) (string, error) {
	for _, dir := range filepath.SplitList(dirs) {
		path, err := exec.LookPath(filepath.Join(dir, "grep"))
		if err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("no grep in %s: apt install grep", dirs)
}
