package mcpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

const childEnv = "PI_MCP_FRONT_CHILD"

// TestFrontChild is not a test: the others run it as a process of its own, for
// the descriptors 0, 1 and 2 are at stake. It exits with 7 when the session has
// ended and everything could be reported.
func TestFrontChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	defer time.NewTicker(100 * time.Millisecond).Stop() // bounds the runtime's sleep, as in the server
	in, err := openStdin()
	if err != nil {
		panic(err)
	}
	out, err := openStdout()
	if err != nil {
		panic(err)
	}
	f := newFront(in, out, time.Minute)
	f.onEOF = func() { fmt.Fprintln(os.Stderr, "onEOF") }
	f.onBroken = func(err error) { fmt.Fprintln(os.Stderr, "onBroken:", err) }
	server := mcp.NewServer(&mcp.Implementation{Name: "child", Version: "0"}, nil)
	fmt.Fprintln(os.Stderr, "ended:", server.Run(context.Background(), f.Transport()))
	os.Exit(7)
}

func child(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFrontChild$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	return cmd
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func wantExit7(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Wait()
	if got := cmd.ProcessState; got.ExitCode() != 7 {
		t.Errorf("the process ended with %v, want exit status 7", got)
	}
}

func stdinPipe(t *testing.T, cmd *exec.Cmd) io.WriteCloser {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestF43StdinClosed(t *testing.T) {
	cmd := child(t)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	in := stdinPipe(t, cmd)
	start(t, cmd)
	io.WriteString(in, "{bad json\n"+ping("1")+"\n")
	in.Close()
	wantExit7(t, cmd)
	if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "-32700") {
		t.Errorf("stdout has %q", out.String())
	}
	if got, want := log.String(), "onEOF\nended: <nil>\n"; got != want {
		t.Errorf("stderr has %q, want %q", got, want)
	}
}

// A killed client takes stdout and stderr along; stdin may live on in another
// process. The server must neither hang nor be killed by SIGPIPE, for it has
// agents to stop.
func TestF43StdoutAndStderrClosed(t *testing.T) {
	cmd := child(t)
	in := stdinPipe(t, cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	io.WriteString(in, ping("1")+"\n")
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // the session is on
		t.Fatal(err)
	}
	log.Close()
	out.Close()
	wantExit7(t, cmd)
}

// Node starts its children with sockets for pipes.
func TestFrontOverSockets(t *testing.T) {
	cmd := child(t)
	in, childIn := socketPair(t)
	out, childOut := socketPair(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, t.Output()
	start(t, cmd)
	childIn.Close()
	childOut.Close()
	io.WriteString(in, ping("1")+"\n")
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"id":1`) {
		t.Errorf("answered %q, %v", line, err)
	}
	out.Close() // stdin stays open
	wantExit7(t, cmd)
}

func socketPair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// A file is served as well, and its flags are left alone.
func TestFrontOverFiles(t *testing.T) {
	requests, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer requests.Close()
	io.WriteString(requests, ping("1")+"\n"+ping("2"))
	requests.Seek(0, io.SeekStart)
	answers, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer answers.Close()
	cmd := child(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = requests, answers, t.Output()
	start(t, cmd)
	wantExit7(t, cmd)
	got, err := os.ReadFile(answers.Name())
	if err != nil || strings.Count(string(got), "\n") != 2 {
		t.Errorf("answers %q, %v", got, err)
	}
	if flags, err := unix.FcntlInt(requests.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("the flags of the file are %#x, %v", flags, err)
	}
}

// Closing what is read ends the read, for a pipe and for a socket.
func TestFrontPolledReadEnds(t *testing.T) {
	pipe, _ := osPipe(t)
	socket, _ := socketPair(t)
	for name, fd := range map[string]uintptr{"pipe": pipe.(*os.File).Fd(), "socket": socket.Fd()} {
		t.Run(name, func(t *testing.T) {
			file, err := polled(int(fd), name)
			if err != nil {
				t.Fatal(err)
			}
			read := make(chan error)
			go func() {
				_, err := file.Read(make([]byte, 1))
				read <- err
			}()
			file.Close()
			if err := <-read; err == nil {
				t.Error("nothing was read, without an error")
			}
		})
	}
	if _, err := polled(1<<30, "nothing"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("polled a descriptor that is not there: %v", err)
	}
}
