package seccomp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"pi-mcp/cage/seccomp"
)

// caged returns a command that runs argv under the filter, in a cage where everything
// of the host can be read and only writable be written. Without capabilities, so that
// a call that the filter lets through does no harm.
func caged(t testing.TB, filter *os.File, writable []string, argv ...string) *exec.Cmd {
	t.Helper()
	a := []string{"--unshare-user", "--unshare-pid", "--cap-drop", "ALL", "--die-with-parent",
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	for _, dir := range writable {
		a = append(a, "--bind", dir, dir)
	}
	a = append(a, "--chdir", writable[0])
	if filter != nil {
		a = append(a, "--seccomp", "3")
	}
	cmd := exec.CommandContext(t.Context(), "bwrap", append(append(a, "--"), argv...)...)
	cmd.Env = append(os.Environ(), "HOME="+writable[0], "TMPDIR="+writable[0])
	if filter != nil {
		cmd.ExtraFiles = []*os.File{filter}
	}
	return cmd
}

// file is the filter with these options, for one bubblewrap.
func file(t testing.TB, o seccomp.Options) *os.File {
	t.Helper()
	f, err := seccomp.File(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// marked is the strict filter with another error instead of EPERM, which no kernel
// gives for any of its calls. It tells what the filter refused from what the kernel
// would have refused. ENOSYS stays, because a C library falls back on nothing else, and
// needs no mark: whoever gives it, the call is not to be had.
func marked(t testing.TB) *os.File {
	t.Helper()
	program := filter(t, seccomp.Options{})
	for i := range program {
		if verdict(program[i].K) == eperm {
			program[i].K = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOANO)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "filter"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteAt(seccomp.Encode(program), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// ask makes the probe do its task under a filter, or under none if that is nil.
func ask(t testing.TB, filter *os.File, do task) (got answers) {
	t.Helper()
	do.Numbers = here(t)
	in, err := json.Marshal(do)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := caged(t, filter, []string{do.Dir}, self)
	cmd.Env = append(cmd.Env, probeVar+"=1")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// probeVar makes this test binary the probe.
const probeVar = "SECCOMP_TEST_PROBE"

// A task is what the probe reads from its standard input.
type task struct {
	Numbers map[string]uint32
	Dir     string  // the probe may write here
	Socket  string  // somebody receives datagrams here
	Raw     []issue // to be made as they are
}

type issue struct {
	Number uint32
	Args   [6]uint64
}

// answers are what the probe writes: the error of each raw call, and for each named
// trial what trials says.
type answers struct {
	Raw    []unix.Errno
	Trials map[string]unix.Errno
}

// probe runs inside the cage.
func probe(in io.Reader, out io.Writer) {
	var do task
	if err := json.NewDecoder(in).Decode(&do); err != nil {
		panic(err)
	}
	got := answers{Trials: map[string]unix.Errno{}}
	for _, i := range do.Raw {
		a := i.Args
		_, _, err := unix.RawSyscall6(uintptr(i.Number), uintptr(a[0]), uintptr(a[1]), uintptr(a[2]),
			uintptr(a[3]), uintptr(a[4]), uintptr(a[5]))
		got.Raw = append(got.Raw, err)
	}
	if do.Socket != "" {
		for _, trial := range trials() {
			if err, ok := trial.try(do); ok {
				got.Trials[trial.name] = err
			}
		}
	}
	if err := json.NewEncoder(out).Encode(got); err != nil {
		panic(err)
	}
}
