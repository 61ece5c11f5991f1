package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever an agent makes of its session file, its next start goes well or fails with a
// reason and leaves the agent as it was; and where a session says that it belongs, pi
// gets no more than its cage shows.
func TestSpoiltSession(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	project, other := filepath.Join(w.dir, "project"), filepath.Join(w.dir, "other")
	for _, dir := range []string{project, other} {
		write(t, filepath.Join(dir, "here"), dir)
	}
	c := w.client()
	for _, tc := range []struct{ name, spoil, why string }{
		{"untouched, the control", "true", ""},
		{"empty", ": >$S", ""},
		{"garbage", "head -c 100000 /dev/urandom >$S", "not a valid pi session"},
		{"cut", "head -c 100 $S >$S.s; cat $S.s >$S", "not a valid pi session"},
		{"elsewhere", `sed "1s,\"cwd\":\"[^\"]*\",\"cwd\":\"$OTHER\"," $S >$S.s; grep -q $OTHER $S.s; cat $S.s >$S`, "does not exist"},
	} {
		a := c.run(obj{"write": []string{project}, "cwd": project})
		c.ask(a.ID, "remember: perch")
		call[info](c, "rip", obj{"agent_id": a.ID})
		spoil := exec.Command("/bin/sh", "-ec", tc.spoil)
		spoil.Env = []string{"PATH=/usr/bin:/bin", "S=" + a.Artifacts.Session, "OTHER=" + other}
		if out, err := spoil.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", tc.name, err, out)
		}
		if tc.why != "" {
			has(t, tc.name, c.refused("resurrect", obj{"agent_id": a.ID}), tc.why)
			if i := c.info(a.ID); i.State != "ripped" || i.PID != nil || i.Lifecycle.Retries != 0 {
				t.Errorf("%s: %+v", tc.name, i)
			}
			continue
		}
		call[info](c, "resurrect", obj{"agent_id": a.ID})
		has(t, tc.name, c.ask(a.ID, "bash: pwd; cat here; ls "+other+" || echo shut").text(), project+"\n"+project, "shut")
		if recalls := strings.Contains(c.ask(a.ID, "recall").text(), "perch"); recalls != (tc.spoil == "true") {
			t.Errorf("%s: it recalls what was said: %t", tc.name, recalls)
		}
	}
}
