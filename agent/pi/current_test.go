package pi_test

import (
	"os"
	"path/filepath"
	"testing"

	"pi-mcp/agent/pi"
)

// An install is current until its files change or its name leads elsewhere.
func TestCurrent(t *testing.T) {
	dir := t.TempDir()
	real, err := filepath.Abs("../../.tools/node_modules/.bin/pi")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "pi")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	c := pi.Config{Pi: link, Path: os.Getenv("PATH")}
	in, err := pi.Find(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !in.Current(c) {
		t.Error("what was just found is not current")
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if in.Current(c) {
		t.Error("current without the link")
	}
	if err := os.Symlink("/bin/true", link); err != nil {
		t.Fatal(err)
	}
	if in.Current(c) {
		t.Error("current although the name leads elsewhere")
	}
}
