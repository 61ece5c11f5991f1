package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// weakBwrap makes a bubblewrap that knows all options and leaves out some, each with
// as many arguments as follow it in without.
func (w *world) weakBwrap(name string, without ...string) string {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	path := w.path("weak", name)
	write(w.t, path+".without", strings.Join(append([]string{bwrapPath(w.t)}, without...), " "))
	return link(w.t, self, path)
}

// weaken becomes the real bubblewrap, the first of words, told all but the option in
// the others. What it is told is in args or on the descriptor that they name.
func weaken(words, args []string) error {
	real, without := words[0], words[1:]
	if i := slices.Index(args, "--args"); i >= 0 {
		fd, err := strconv.Atoi(args[i+1])
		if err != nil {
			return err
		}
		if err := weakenFD(without, fd); err != nil {
			return err
		}
	}
	return unix.Exec(real, drop(args, without), os.Environ())
}

// weakenFD puts a file in the place of fd that reads the same but for the option.
func weakenFD(without []string, fd int) error {
	said, err := io.ReadAll(os.NewFile(uintptr(fd), "args"))
	if err != nil {
		return err
	}
	kept := drop(strings.Split(strings.TrimSuffix(string(said), "\x00"), "\x00"), without)
	file, err := unix.MemfdCreate("args", 0)
	if err != nil {
		return err
	}
	text := bytes.NewBufferString(strings.Join(kept, "\x00") + "\x00").Bytes()
	if _, err := unix.Pwrite(file, text, 0); err != nil {
		return err
	}
	return unix.Dup3(file, fd, 0)
}

// drop leaves out the words where they follow each other.
func drop(args, words []string) (kept []string) {
	for i := 0; i < len(args); {
		if i+len(words) <= len(args) && slices.Equal(args[i:i+len(words)], words) {
			i += len(words)
			continue
		}
		kept = append(kept, args[i])
		i++
	}
	return kept
}

// TestWeakBwrap: the tool of these tests does what it says and nothing else.
func TestWeakBwrap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func(path string) string {
		out, err := exec.Command(path, "--dev-bind", "/", "/", "--unshare-uts", "--hostname", "weak", "uname", "-n").Output()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	if got := run(w.weakBwrap("all", "--none")); got != "weak" {
		t.Errorf("one that leaves out nothing: %q", got)
	}
	if got := run(w.weakBwrap("named", "--hostname", "weak")); got == "weak" {
		t.Errorf("one without the option: %q", got)
	}
}
