package pi_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pi-mcp/agent/pi"
)

// TestMain lets the test binary play node and a compiled pi: a copy of it that
// has a file NAME.version beside it prints that file.
func TestMain(m *testing.M) {
	if version, err := os.ReadFile(os.Args[0] + ".version"); err == nil {
		play(string(version))
	}
	os.Exit(m.Run())
}

func play(version string) {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(version)
		os.Exit(0)
	}
	// `pi auth check`: note the call, wait until the gate (a FIFO) is opened if
	// there is one, answer what the file says.
	calls, err := os.OpenFile(os.Args[0]+".calls", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(calls, strings.Join(os.Args[1:], " "))
	if gate, err := os.Open(os.Args[0] + ".gate"); err == nil {
		io.Copy(io.Discard, gate)
	}
	answer, _ := os.ReadFile(os.Args[0] + ".answer")
	fmt.Fprintln(os.Stderr, "words on stderr")
	os.Stdout.Write(answer)
	if !strings.Contains(string(answer), `"ready"`) {
		os.Exit(1)
	}
	os.Exit(0)
}

// binary makes a program that answers --version.
func binary(t *testing.T, file, version string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	if err := os.Link(self, file); err != nil {
		data, err := os.ReadFile(self)
		must(t, err)
		must(t, os.WriteFile(file, data, 0o755))
	}
	write(t, file+".version", version)
	return file
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o755))
	return file
}

func link(t *testing.T, target, name string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.Symlink(target, name))
	return name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dir is a temporary directory without a symlink in its path.
func dir(t *testing.T) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return real
}

// npm makes the files of a pi package below modules and returns its entry.
func npm(t *testing.T, modules, version string) string {
	t.Helper()
	pkg := filepath.Join(modules, "@earendil-works", "pi-coding-agent")
	write(t, filepath.Join(pkg, "package.json"),
		fmt.Sprintf(`{"name":"@earendil-works/pi-coding-agent","version":%q,"dependencies":{"chalk":"6"}}`, version))
	write(t, filepath.Join(pkg, "dist", "cli.js"), "#!/usr/bin/env node\n")
	return write(t, filepath.Join(pkg, "dist", "bundle", "cli.js"), "#!/usr/bin/env node\n")
}

func find(t *testing.T, c pi.Config) *pi.Install {
	t.Helper()
	in, err := pi.Find(t.Context(), c)
	must(t, err)
	return in
}

// refused returns the text of the error that Find must give.
func refused(t *testing.T, c pi.Config) string {
	t.Helper()
	in, err := pi.Find(t.Context(), c)
	if err == nil {
		t.Fatalf("Find(%+v) = %v, want an error", c, in.Host)
	}
	return err.Error()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// realPi finds the pi that the repository is tested against.
func realPi(t testing.TB) *pi.Install {
	t.Helper()
	name, err := filepath.Abs("../../.tools/node_modules/.bin/pi")
	if err != nil {
		t.Fatal(err)
	}
	in, err := pi.Find(context.Background(), pi.Config{Pi: name})
	if err != nil {
		t.Fatalf("%v (`make setup` puts it there)", err)
	}
	return in
}

// onHost returns a command that runs the real pi with dir as its agent directory.
func onHost(t *testing.T, in *pi.Install, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), in.Host[0], append(in.Host[1:len(in.Host):len(in.Host)], args...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "PI_CODING_AGENT_DIR=" + dir, "PI_OFFLINE=1",
		"NODE_DISABLE_COMPILE_CACHE=1"}
	return cmd
}

func arch() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}
