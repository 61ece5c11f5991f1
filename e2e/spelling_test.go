package e2e

import (
	"os"
	"slices"
	"testing"
)

// An agent finds what it was granted at the place that was named to it, also after a
// resurrection; what it was granted is told without symlinks.
func TestSpellings(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	// Not in /tmp: there the agent has a directory of its own.
	dir, err := os.MkdirTemp("/var/tmp", "pi-mcp-e2e-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	real, link := dir+"/real", dir+"/link"
	write(t, real+"/file", "the file\n")
	must(t, os.Symlink(real, link))
	c := w.client()
	a := c.run(obj{"write": []string{link}, "cwd": link})
	if !slices.Equal(a.Mounts.Write, []string{real}) || a.Cwd != real {
		t.Errorf("granted: %+v in %s", a.Mounts, a.Cwd)
	}
	look := "bash: cat " + link + "/file" + " " + real + "/file"
	has(t, "the agent", c.ask(a.ID, look).text(), "the file\nthe file")
	call[info](c, "rip", obj{"agent_id": a.ID})
	call[info](c, "resurrect", obj{"agent_id": a.ID})
	has(t, "after a resurrection", c.ask(a.ID, look).text(), "the file\nthe file")
}
