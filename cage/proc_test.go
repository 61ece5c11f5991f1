package cage_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

func owner(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// start starts argv and closes the streams at the end of the test.
func start(t testing.TB, b *cage.Bwrap, spec cage.Spec, argv ...string) *cage.Proc {
	t.Helper()
	spec.Env = append(spec.Env, env...)
	p, err := b.Start(t.Context(), spec, argv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
		p.In.Close()
		p.Out.Close()
		p.Stderr.Close()
	})
	return p
}

func readLine(t testing.TB, r io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("read %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// marker returns the seconds of a sleep that no other process has in its command.
func marker(n int) string { return fmt.Sprintf("9%d.%03d", os.Getpid(), n) }

func TestStreams(t *testing.T) {
	p := start(t, open(t), cage.Spec{}, "/bin/sh", "-c", "cat; echo end >&2; exit 7")
	const size = 1 << 20
	go func() {
		io.Copy(p.In, strings.NewReader(strings.Repeat("x", size)))
		p.In.Close()
	}()
	out, err := io.ReadAll(p.Out)
	if err != nil || len(out) != size {
		t.Errorf("output has %d bytes, %v", len(out), err)
	}
	if got := readLine(t, p.Stderr); got != "end" {
		t.Errorf("errors %q", got)
	}
	if got := p.Exit(); got != (cage.Exit{Code: 7}) {
		t.Errorf("exit %+v", got)
	}
}

// TestForgedStreams: another program in the cage can open the pipe of the program's
// errors (control), and neither its output nor its input.
func TestForgedStreams(t *testing.T) {
	t.Parallel()
	b := open(t)
	for fd, ok := range map[int]bool{0: false, 1: false, 2: true} {
		p := start(t, b, cage.Spec{}, "/bin/sh", "-c", fmt.Sprintf(
			`(exec 3</dev/null; [ %d != 0 ] || exec 4<>/proc/$$/fd/0; [ %d = 0 ] || exec 4>/proc/$$/fd/%d) 2>/dev/null; echo $?`, fd, fd, fd))
		if got := readLine(t, p.Out); (got == "0") != ok {
			t.Errorf("descriptor %d can be opened again: %s, want ok %v", fd, got, ok)
		}
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	b := open(t)
	for script, want := range map[string]cage.Exit{
		"exit 0":         {},
		"exit 1":         {Code: 1},
		"exit 255":       {Code: 255},
		"kill -KILL $$":  {Code: 137, Signal: "SIGKILL"},
		"kill -TERM $$":  {Code: 143, Signal: "SIGTERM"},
		"kill -SEGV $$":  {Code: 139, Signal: "SIGSEGV"},
		"exit 143":       {Code: 143},
		"exec /bin/none": {Code: 127},
	} {
		if got := shell(t, b, cage.Spec{}, script).Exit; got != want {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
	}
	_, err := b.Start(t.Context(), cage.Spec{}, []string{"/bin/none"})
	if err == nil || !strings.Contains(err.Error(), "cannot execute /bin/none") || !strings.Contains(err.Error(), "not in the cage") {
		t.Errorf("missing program: %v", err)
	}
}

func TestKill(t *testing.T) {
	p := start(t, open(t), cage.Spec{}, "/bin/sh", "-c", "trap '' TERM INT; echo up; sleep "+marker(0))
	readLine(t, p.Out)
	p.Kill()
	p.Kill()
	want := cage.Exit{Code: 137, Signal: "SIGKILL"}
	if got := p.Exit(); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
	p.Kill() // the pid may be anybody's now
}

// TestF12Threads: cages started from threads that end stay alive, and can be told
// apart from ones that do not answer. A plain bubblewrap is killed.
func TestF12Threads(t *testing.T) {
	t.Parallel()
	b := open(t)
	procs := make([]*cage.Proc, 40)
	var starters sync.WaitGroup
	for i := range procs {
		starters.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with this function
			procs[i], _ = b.Start(t.Context(), cage.Spec{}, []string{"/bin/cat"})
		})
	}
	starters.Wait()
	churn(200)
	for i, p := range procs {
		if p == nil {
			t.Fatalf("cage %d did not start", i)
		}
		fmt.Fprintf(p.In, "%d\n", i)
		if got := readLine(t, p.Out); got != strconv.Itoa(i) {
			t.Errorf("cage %d says %q", i, got)
		}
		p.In.Close()
		if got := p.Exit(); got != (cage.Exit{}) {
			t.Errorf("cage %d: %+v", i, got)
		}
		p.Out.Close()
		p.Stderr.Close()
	}
	if err := fromThread(t, exec.Command(tool(t, "bwrap"), "--die-with-parent", "--ro-bind", "/", "/", "/bin/sh", "-c", "echo up; exec cat")); err == nil {
		t.Error("control: a plain bubblewrap outlives the thread that started it")
	}
}

// fromThread starts a command from a thread that ends once the command has printed a
// line, and returns how it then ends. Its input stays open.
func fromThread(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan error)
	var begin func()
	begin = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // this one does not end
			go begin()
			<-t.Context().Done()
			return
		}
		err := cmd.Start()
		if err == nil {
			_, err = bufio.NewReader(out).ReadString('\n')
		}
		begun <- err
	}
	go begin()
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	return cmd.Wait()
}

// churn makes the runtime end n threads.
func churn(n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			unix.Getpid()
		})
	}
	all.Wait()
}

// TestThreads: a waiting server has no thread for each cage.
func TestThreads(t *testing.T) {
	b := open(t)
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	before := threads()
	for range 30 {
		p := start(t, b, cage.Spec{}, "/bin/sh", "-c", "echo up; exec cat")
		readLine(t, p.Out)
	}
	if more := threads() - before; more > 15 {
		t.Errorf("30 cages took %d threads more", more)
	}
}
