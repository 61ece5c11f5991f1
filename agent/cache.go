package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pi-mcp/agent/pi"
	"pi-mcp/cage"
)

// cacheTarget is where a cage sees the compile cache.
const cacheTarget = "/opt/pi-mcp/compile-cache"

// warmWait bounds the filling of a cache, which takes about a second.
const warmWait = 15 * time.Second

// A warming is one attempt at filling the compile cache of a pi.
type warming struct {
	began time.Time
	done  chan struct{} // closed after ok is set
	ok    bool
}

// warmAgain is how long a failed attempt is not repeated.
const warmAgain = time.Minute

// stale reports whether an attempt failed so long ago that another is due.
func (w *warming) stale() bool {
	select {
	case <-w.done:
		return !w.ok && time.Since(w.began) > warmAgain
	default:
		return false
	}
}

// cache returns the directory with Node's compiled code of this pi, filled once
// by a pi that has nothing to do with any agent. Agents get it read-only: what
// one could write, others would run. Without a cache a start takes longer, so a
// failure only costs time and goes to the log.
func (s *Supervisor) cache(ctx context.Context, install *pi.Install, bwrap *cage.Bwrap) string {
	if install.Warm() == nil {
		return ""
	}
	dir := filepath.Join(s.cfg.StateDir, cacheDir, install.Key)
	for range 2 { // once more if somebody has deleted what was filled
		w := s.warming(install, bwrap, dir)
		select {
		case <-w.done:
		case <-ctx.Done():
			return ""
		}
		if !w.ok {
			return ""
		}
		if isDir(dir) {
			return dir
		}
		s.tools.forget(install.Key, w)
	}
	return ""
}

// forget has the next start fill the cache again.
func (t *tools) forget(key string, w *warming) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.warm[key] == w {
		delete(t.warm, key)
	}
}

// cacheDir is below the state directory.
const cacheDir = "compile-cache"

// warming returns the attempt for this pi, and begins it if there is none. It goes
// on when the caller gives up, and ends with the supervisor.
func (s *Supervisor) warming(install *pi.Install, bwrap *cage.Bwrap, dir string) *warming {
	t := &s.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.warm[install.Key]; w != nil && !w.stale() {
		return w
	}
	w := &warming{done: make(chan struct{}), began: time.Now()}
	t.warm = map[string]*warming{install.Key: w} // a pi that was replaced does not come back
	began := s.begin(func() {
		defer close(w.done)
		ctx, cancel := context.WithTimeout(s.ctx, warmWait)
		defer cancel()
		if err := fill(ctx, install, bwrap, dir); err != nil {
			s.cfg.Log.Warn("cannot warm the compile cache; starts take longer", "err", err)
			return
		}
		w.ok = true
	})
	if !began {
		close(w.done)
	}
	return w
}

// scratch begins the names of what fill works in.
const scratch = ".new-"

// fill makes the cache in a directory of its own and moves it into place whole,
// so that no start sees half of it.
func fill(ctx context.Context, install *pi.Install, bwrap *cage.Bwrap, dir string) error {
	if isDir(dir) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), scratch)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	cache, home := filepath.Join(work, "cache"), filepath.Join(work, "home")
	for _, d := range []string{cache, home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	res, err := bwrap.Run(ctx, warmSpec(install, cache, home), install.Warm(), cage.Limits{Stdout: 1 << 20, Stderr: 64 << 10})
	if err != nil {
		return err
	}
	if res.Exit.Code != 0 {
		return fmt.Errorf("pi ended with %d: %s", res.Exit.Code, clip(string(res.Stderr), 1<<10))
	}
	if err := os.Rename(cache, dir); err != nil && !isDir(dir) { // another server may have been first
		return err
	}
	return nil
}

// warmSpec is like an agent's cage in what the cache depends on: the paths of the
// modules and the uid.
func warmSpec(install *pi.Install, cache, home string) cage.Spec {
	binds := []cage.Bind{{Source: cache, Target: cacheTarget, Write: true}, {Source: home, Target: "/pi-agent", Write: true}}
	for _, m := range install.Mounts {
		binds = append(binds, cage.Bind{Source: m.Source, Target: m.Target})
	}
	limits := cage.Rlimits{Processes: 4 * cage.FewestProcesses, FileSize: 256 << 20, CPU: 60}
	return cage.Spec{Binds: binds, Limits: limits, Env: []string{
		"PATH=/usr/bin:/bin", "HOME=/pi-agent", "PI_CODING_AGENT_DIR=/pi-agent", "PI_OFFLINE=1",
		"NODE_COMPILE_CACHE=" + cacheTarget,
	}}
}

// sweepCache deletes what a server left that was killed while it filled a cache. A
// filling takes seconds, so what is older than an hour is nobody's.
func (s *Supervisor) sweepCache() {
	dir := filepath.Join(s.cfg.StateDir, cacheDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there is no cache yet
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), scratch) || time.Since(info.ModTime()) < time.Hour {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			s.cfg.Log.Warn("cannot delete a half-made compile cache", "err", err)
		}
	}
}

// isDir reports whether path is a directory on the host.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
