package cage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
	"pi-mcp/cage/cgroup"
	"pi-mcp/cage/landlock"
)

// A Config says how cages are made.
type Config struct {
	// Bwrap is the bubblewrap program. Empty: bwrap, looked for in PATH.
	Bwrap string

	// Init is required: the program that is the first process of every cage. It
	// must call cageinit.Main when its first argument is cageinit.Command, and be
	// built without cgo. What Open finds there is what is used until Close, even if
	// the file is replaced by another one.
	Init string

	// StateDir is required: an existing directory of the server's own, that no
	// cage is granted. It holds the file that masks denied files, and tells the next
	// server what one that was killed has left.
	StateDir string
}

// A Bwrap starts cages. Its methods may be called from any goroutine.
type Bwrap struct {
	path     string
	features features
	void     string
	program  *program
	births   births
	gate     gate
	landlock int // the kernel's version of it; 0: none
	door     *door
	own      []cageinit.Namespace // this process's

	// calls leads to the one thread that starts every cage. The kernel kills a
	// cage when the thread that started it ends, not the process, and the Go
	// runtime ends threads as it likes; this one lives until Close.
	calls chan func()

	mu     sync.Mutex // protects the fields below, and calls from being closed
	closed bool
	procs  map[*Proc]struct{} // not done yet
}

// errClosed is all that Start says after Close.
var errClosed = errors.New("cannot start a cage: the server is stopping")

// helpTimeout bounds bwrap --help, which does nothing but print.
const helpTimeout = 10 * time.Second

// Open finds bubblewrap and reads what it can do. It marks every descriptor that
// this process was started with as close-on-exec: whoever started it may have left
// some open, and one of a directory would be a way out of every cage.
func Open(c Config) (*Bwrap, error) {
	path, err := find(c.Bwrap)
	if err != nil {
		return nil, err
	}
	if err := seal(); err != nil {
		return nil, err
	}
	f, err := probe(path)
	if err != nil {
		return nil, err
	}
	void, err := makeVoid(c.StateDir)
	if err != nil {
		return nil, err
	}
	births, err := openBirths(c.StateDir)
	if err != nil {
		return nil, err
	}
	door, err := openDoor(c.StateDir)
	if err != nil {
		return nil, err
	}
	program, err := openProgram(c.Init, c.StateDir)
	if err != nil {
		return nil, err
	}
	own, err := ownNamespaces()
	if err != nil {
		program.close()
		return nil, err
	}
	b := &Bwrap{
		own: own, path: path, features: f, void: void, program: program, births: births, door: door,
		landlock: landlock.ABI(),
		calls:    make(chan func()), procs: make(map[*Proc]struct{}),
	}
	go spawner(b.calls)
	return b, nil
}

// Path returns where bubblewrap is.
func (b *Bwrap) Path() string { return b.path }

// find returns the absolute path of the program.
func find(name string) (string, error) {
	if name == "" {
		name = "bwrap"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return filepath.Abs(path)
	}
	if filepath.Base(name) != name {
		return "", fmt.Errorf("cannot use bubblewrap at %s: %w; name an executable file", name, cause(err))
	}
	return "", fmt.Errorf("cannot find %s in PATH (%s): bubblewrap is not installed; "+
		"apt install bubblewrap, dnf install bubblewrap or pacman -S bubblewrap", name, os.Getenv("PATH"))
}

// probe reads the program's options.
func probe(path string) (features, error) {
	ctx, cancel := context.WithTimeout(context.Background(), helpTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--help")
	cmd.Env = []string{}
	cmd.WaitDelay = helpTimeout
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("cannot run %s --help: %w\n%s", path, err, out)
	}
	f := parseHelp(string(out))
	return f, f.check(path)
}

// seal makes every descriptor but the three streams close-on-exec. It needs Linux
// 5.11; everything else here is older.
func seal() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("cannot keep inherited descriptors out of the cages (Linux 5.11 or later is needed): %w", err)
	}
	return nil
}

// makeVoid returns an empty file that nobody may read. One made earlier may not
// have been what it is now, so it is made anew.
func makeVoid(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot use the state directory: %w", err)
	}
	f, err := os.CreateTemp(dir, ".void")
	if err != nil {
		return "", fmt.Errorf("cannot make the mask for denied files: %w", err)
	}
	defer f.Close()
	path := filepath.Join(dir, "void")
	if err := errors.Join(f.Chmod(0), os.Rename(f.Name(), path)); err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("cannot make the mask for denied files: %w", err)
	}
	return path, nil
}

// Missing returns the options that this bubblewrap lacks and that would make its
// cages stronger, for a report.
func (b *Bwrap) Missing() (all []Lack) {
	for _, w := range wanted {
		if !b.features[w.Option] {
			all = append(all, w)
		}
	}
	return all
}

// spawner runs calls on one thread until calls is closed.
func spawner(calls <-chan func()) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for call := range calls {
		call()
	}
}

// forkIn starts bubblewrap on the spawner's thread, in group if there is one, and
// takes it into procs.
func (b *Bwrap) forkIn(files []*os.File, group *cgroup.Group) (*Proc, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	var p *Proc
	var err error
	returned := make(chan struct{})
	b.calls <- func() {
		defer close(returned)
		p, err = forkInto(group, b.path, b.command(), files)
	}
	<-returned
	if err == nil {
		b.procs[p] = struct{}{}
	}
	return p, err
}

// closing returns the better reason for err after Close.
func (b *Bwrap) closing(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	return err
}

// forget takes a process out of procs. It is gone.
func (b *Bwrap) forget(p *Proc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.procs, p)
}

// Close kills every cage that is still there, waits for them, and ends the thread.
// A second Close does nothing.
func (b *Bwrap) Close() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.closed = true
	close(b.calls)
	var left []*Proc
	for p := range b.procs {
		left = append(left, p)
	}
	b.mu.Unlock()
	for _, p := range left {
		p.Kill()
	}
	for _, p := range left {
		<-p.Done()
	}
	b.program.close()
}
