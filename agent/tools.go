package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"pi-mcp/agent/pi"
	"pi-mcp/cage"
)

// cacheTarget is where a cage sees the compile cache.
const cacheTarget = "/opt/pi-mcp/compile-cache"

// tools are the programs that starts need. They are looked for at the first
// start and again until they are found: a server without them still lists and
// reads.
type tools struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	bwrap  *cage.Bwrap
	pi     *pi.Install
	warm   map[string]bool // by the key of a pi: its compile cache is filled, or cannot be
}

// install returns the pi to run. Whether it has been replaced is looked at at
// every start; it is searched for again, which runs Node.js, only then.
func (t *tools) install(ctx context.Context, cfg Config) (*pi.Install, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	where := pi.Config{Pi: cfg.Pi, Node: cfg.Node, Path: cfg.Path}
	if t.pi != nil && t.pi.Current(where) {
		return t.pi, nil
	}
	found, err := pi.Find(ctx, where)
	if err != nil {
		return nil, err
	}
	t.pi = found
	return found, nil
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
	opened, err := cage.Open(cage.Config{Bwrap: cfg.Bwrap, StateDir: cfg.StateDir})
	if err != nil {
		return nil, err
	}
	t.bwrap = opened
	return opened, nil
}

// close ends what the tools hold.
func (t *tools) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.bwrap != nil {
		t.bwrap.Close()
	}
}

// cache returns the directory with Node's compiled code of this pi, filled once
// by a pi that has nothing to do with any agent. Agents get it read-only: what
// one could write, others would run. Without a cache a start takes longer, so a
// failure only costs time and goes to the log.
func (t *tools) cache(ctx context.Context, cfg Config) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pi.Warm() == nil {
		return ""
	}
	dir := filepath.Join(cfg.StateDir, "compile-cache", t.pi.Key)
	done, tried := t.warm[t.pi.Key]
	if !tried {
		err := t.fill(ctx, dir)
		if ctx.Err() != nil {
			return "" // says nothing of the next try
		}
		if err != nil {
			cfg.Log.Warn("cannot warm the compile cache; starts take longer", "err", err)
		}
		done = err == nil
		t.warm = map[string]bool{t.pi.Key: done}
	}
	if !done {
		return ""
	}
	return dir
}

// fill makes the cache in a directory of its own and moves it into place whole,
// so that no start sees half of it.
func (t *tools) fill(ctx context.Context, dir string) error {
	if isDir(dir) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	scratch, err := os.MkdirTemp(filepath.Dir(dir), ".pi-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	binds := []cage.Bind{{Source: fresh, Target: cacheTarget, Write: true}, {Source: scratch, Target: "/pi-agent", Write: true}}
	for _, m := range t.pi.Mounts {
		binds = append(binds, cage.Bind{Source: m.Source, Target: m.Target})
	}
	spec := cage.Spec{Binds: binds, Dir: "/", Env: []string{
		"PATH=/usr/bin:/bin", "HOME=/pi-agent", "PI_CODING_AGENT_DIR=/pi-agent", "PI_OFFLINE=1",
		"NODE_COMPILE_CACHE=" + cacheTarget,
	}}
	res, err := t.bwrap.Run(ctx, spec, t.pi.Warm(), cage.Limits{Stdout: 1 << 20, Stderr: 64 << 10})
	if err != nil {
		return err
	}
	if res.Exit.Code != 0 {
		return fmt.Errorf("pi ended with %d: %s", res.Exit.Code, clip(string(res.Stderr), 1<<10))
	}
	if err := os.Rename(fresh, dir); err != nil && !isDir(dir) { // another server may have been first
		return err
	}
	return nil
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
