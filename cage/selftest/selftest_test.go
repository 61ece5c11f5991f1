package selftest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pi-mcp/cage"
	"pi-mcp/cage/selftest"
)

// build makes the program that plays both parts. It returns its path.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "init")
	cmd := exec.Command("go", "build", "-o", path, "./testdata/init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// TestAttempts: in a cage every attempt fails. The control is the same program on the
// host, where each gets through that an ordinary user could.
func TestAttempts(t *testing.T) {
	program := build(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := cage.Open(cage.Config{Init: program, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	caged, err := selftest.Run(t.Context(), b, []string{secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range caged {
		if r.Achieved != "" {
			t.Errorf("in a cage, %s: %s", r.Name, r.Achieved)
		}
	}
	out, err := exec.Command(program, selftest.Command, secret).Output()
	if err != nil {
		t.Fatal(err)
	}
	var free []selftest.Result
	if err := json.Unmarshal(out, &free); err != nil {
		t.Fatal(err)
	}
	if len(free) != len(caged) || len(free) < 10 {
		t.Fatalf("%d attempts in a cage and %d outside", len(caged), len(free))
	}
	for _, r := range free {
		if r.Achieved == "" && (os.Geteuid() == 0 || r.Name != "write the root") {
			t.Errorf("the control: outside a cage, %s achieves nothing", r.Name)
		}
	}
}

// TestNoCage: without a cage there is no result, but the reason.
func TestNoCage(t *testing.T) {
	stub := filepath.Join(t.TempDir(), "bwrap")
	help, err := exec.Command("bwrap", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nif [ \"$1\" = --help ]; then cat <<'END'\n" + string(help) + "\nEND\nexit 0; fi\nexit 1\n"
	if err := os.WriteFile(stub, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := cage.Open(cage.Config{Bwrap: stub, Init: build(t), StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if all, err := selftest.Run(t.Context(), b, nil); err == nil {
		t.Errorf("without a cage: %v", all)
	}
}
