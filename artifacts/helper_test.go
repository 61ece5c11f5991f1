package artifacts_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/artifacts"
)

const (
	marker = "db-one"
	id     = "01a1964b-2c01-70a5-b520-78f933cdafad"
)

// newStore is an open store in a fresh directory.
func newStore(t testing.TB) (*artifacts.Store, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "agents")
	s, err := artifacts.Open(root, marker)
	check(t, err)
	return s, root
}

// newAgent is the open directory of a new agent, and its paths.
func newAgent(t testing.TB) (*artifacts.Dir, artifacts.Paths) {
	t.Helper()
	s, _ := newStore(t)
	check(t, s.Create(id, []byte("{}\n")))
	d, err := s.Agent(id)
	check(t, err)
	t.Cleanup(func() { d.Close() })
	return d, s.Paths(id)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file with its parent directories.
func write(t testing.TB, path, content string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(content), 0o644))
}

// refused checks that err is an ArgError for arg whose reason has all words.
func refused(t testing.TB, err error, arg string, words ...string) {
	t.Helper()
	var refusal *artifacts.ArgError
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want an ArgError for %s", err, arg)
	}
	if refusal.Arg != arg {
		t.Errorf("refused %q (%s), want %q", refusal.Arg, refusal.Reason, arg)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not have %q", err, word)
		}
	}
}

// num is a pointer to n, for a Range.
func num(n int64) *int64 { return &n }

// deep makes a chain of depth directories named d below dir, longer than any
// path can be, and a file at its end.
func deep(t testing.TB, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range depth {
		check(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		check(t, unix.Close(fd))
		fd = next
	}
	end, err := unix.Openat(fd, "end", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	check(t, err)
	check(t, unix.Close(end))
	check(t, unix.Close(fd))
}

// allocated is how many bytes do allocates in all.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// asOwner runs do with the file rights of an ordinary user who owns root, since
// file modes mean nothing to the super-user.
func asOwner(t testing.TB, root string, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	const nobody = 65534
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		check(t, os.Chown(dir, nobody, nobody))
	}
	check(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	}))
	runtime.LockOSThread() // the rights belong to the thread
	defer runtime.UnlockOSThread()
	unix.SetfsuidRetUid(nobody)
	defer unix.SetfsuidRetUid(0)
	do()
}

// withFewFiles runs do with room for n more open files.
func withFewFiles(t testing.TB, n uint64, do func()) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	highest := uint64(0)
	for _, fd := range open {
		var at uint64
		fmt.Sscan(fd.Name(), &at)
		highest = max(highest, at)
	}
	var was unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: highest + 1 + n, Max: was.Max}))
	defer func() { check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }()
	do()
}
