package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// processes lists the live processes that have to do with a directory: it stands
// in their command line, or it is mounted for them, as an agent's is in its cage.
func processes(dir string) (all []string, err error) {
	procs, err := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		line, _ := os.ReadFile(p + "/cmdline")
		if !bytes.Contains(line, []byte(dir)) {
			mounts, _ := os.ReadFile(p + "/mountinfo")
			if !bytes.Contains(mounts, []byte(mountedAs(dir))) {
				continue
			}
		}
		if pid, _ := strconv.Atoi(filepath.Base(p)); pid != os.Getpid() && alive(pid) {
			all = append(all, fmt.Sprintf("%d: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return all, err
}

// mountedAs is how a directory shows in a mount table, where paths begin at the
// file system: the end of it, which is unique to the test.
func mountedAs(dir string) string {
	parts := strings.Split(strings.TrimPrefix(dir, os.TempDir()), "/")
	return strings.Join(parts, "/") + "/"
}

// stat returns the fields of a process from its state on, nil when it is gone.
func stat(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// alive reports whether a process runs. One that only waits for its parent to
// take note of its end does not.
func alive(pid int) bool {
	f := stat(pid)
	return len(f) > 0 && f[0] != "Z" && f[0] != "X"
}

// spent is the processor time that a process has used, 0 when it is gone.
func spent(pid int) time.Duration {
	f := stat(pid)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// gone waits for the end of a process and returns how much processor time it
// used meanwhile, as far as that can still be seen.
func gone(t testing.TB, pid int) time.Duration {
	t.Helper()
	before := spent(pid)
	last := before
	eventually(t, func() bool {
		last = max(last, spent(pid))
		return !alive(pid)
	}, func() string { return fmt.Sprintf("process %d does not end", pid) })
	return last - before
}

// filesWith lists the files below root that contain text, relative to it.
func filesWith(t testing.TB, root, text string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() == 0 { // one of them nobody may read
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			rel, _ := filepath.Rel(root, path)
			all = append(all, rel)
		}
		return err
	})
	must(t, err)
	return all
}

// A lookout reads the command lines and environments of all processes of this
// machine, over and over, and notes which of some words it finds.
type lookout struct {
	words []string
	stop  chan struct{}
	found chan map[string]bool
}

func newLookout(words ...string) *lookout {
	l := &lookout{words: words, stop: make(chan struct{}), found: make(chan map[string]bool)}
	go l.look()
	return l
}

func (l *lookout) look() {
	seen := map[string]bool{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		l.round(seen)
		select {
		case <-tick.C:
		case <-l.stop:
			l.round(seen)
			l.found <- seen
			return
		}
	}
}

func (l *lookout) round(seen map[string]bool) {
	for _, name := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + name)
		for _, file := range files {
			data, _ := os.ReadFile(file)
			for _, word := range l.words {
				if bytes.Contains(data, []byte(word)) {
					seen[word] = true
				}
			}
		}
	}
}

// end returns the words that were found since newLookout.
func (l *lookout) end() (words []string) {
	close(l.stop)
	for word := range <-l.found {
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

func count(all []string, part string) (n int) {
	for _, s := range all {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}
