package cageinit_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
)

// playVar makes this test binary call Main, outside of any cage.
const playVar = "CAGEINIT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(playVar) != "" {
		cageinit.Main()
	}
	os.Exit(m.Run())
}

// TestMainOutside: as anything but the first process of a cage it does nothing.
func TestMainOutside(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = []string{playVar + "=1"}
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "only for the first process of a cage") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestControl: messages and descriptors arrive whole and apart, and then the end.
func TestControl(t *testing.T) {
	ours, theirs, err := cageinit.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	sent := []cageinit.Message{{Step: cageinit.Ready}, {Step: cageinit.Failed, Reason: strings.Repeat("r", 8000)}, {Step: cageinit.Ended, Code: 139, Signal: "SIGSEGV"}}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cage, err := cageinit.NewControl(dup(t, theirs))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range sent {
		var files []*os.File
		if i == 1 {
			files = []*os.File{write}
		}
		if err := cage.Send(m, files...); err != nil {
			t.Fatal(err)
		}
	}
	write.Close()
	cage.Close()
	for i, want := range sent {
		got, files, err := ours.Receive()
		if err != nil || got != want || len(files) != map[int]int{1: 1}[i] {
			t.Errorf("received %+v with %d files, %v, want %+v", got, len(files), err, want)
		}
		for _, f := range files {
			io.WriteString(f, "through")
			f.Close()
		}
	}
	if text, err := io.ReadAll(read); string(text) != "through" {
		t.Errorf("read %q, %v", text, err)
	}
	if _, _, err := ours.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// FuzzOrder: an order keeps every byte of what it carries.
func FuzzOrder(f *testing.F) {
	f.Add("/bin/cat", "A=\xff\xfe\n", "/w")
	f.Add("", "\x00", "\"")
	f.Fuzz(func(t *testing.T, arg, env, path string) {
		want := cageinit.Order{
			Argv: []cageinit.Raw{cageinit.Raw(arg)}, Env: []cageinit.Raw{cageinit.Raw(env)}, Dir: cageinit.Raw(path),
			Checks: []cageinit.Check{{Path: cageinit.Raw(path), Dev: 1, Ino: 1 << 63, ReadOnly: true}},
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got cageinit.Order
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// dup closes f and returns its descriptor under another number, for a new owner.
func dup(t *testing.T, f *os.File) int {
	t.Helper()
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
