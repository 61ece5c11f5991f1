package agent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent"
	"pi-mcp/cage"
)

// shell has an agent's fake pi run a script as its turn, and waits for its end.
func (w *world) shell(id, script string) {
	w.t.Helper()
	tried := filepath.Join(w.files.Paths(id).Tmp, "tried")
	must(w.t, os.RemoveAll(tried))
	turns := w.info(id).SettleCount
	w.send(id, act(do("spawn", []string{"/bin/sh", "-c", "{ " + script + "; } 2>/tmp/errors; : >/tmp/tried"}),
		do("wait_file", "/tmp/tried"), do("turn", "tried")))
	w.settled(id, turns+1)
}

func (w *world) again(id string) {
	w.t.Helper()
	_, err := w.sup.Rip(w.t.Context(), w.who, id, false)
	must(w.t, err)
	_, err = w.sup.Resurrect(w.t.Context(), w.who, id, nil)
	must(w.t, err)
}

// A denied path stays closed over a resurrection, although the agent has tried to
// move what it lies in. Where it is not denied that works.
func TestMovedMask(t *testing.T) {
	for _, denied := range []bool{true, false} {
		w, project := newWorld(t), t.TempDir()
		secret := filepath.Join(project, "a", "b", "secret")
		must(t, os.MkdirAll(secret, 0o700))
		must(t, os.WriteFile(filepath.Join(secret, "f"), []byte("secret"), 0o600))
		grants := cage.Grants{Write: []string{project}}
		if denied {
			grants.Denied = []string{secret}
		}
		a := w.run(agent.RunRequest{Grants: grants})
		w.shell(a.AgentID, "cd "+project+" && { mv a/b a/moved; mv a moved; ln -s moved a; }")
		if _, err := os.Lstat(filepath.Join(project, "moved")); (err == nil) == denied {
			t.Errorf("denied %t: it was moved: %v", denied, err)
		}
		w.again(a.AgentID)
		w.shell(a.AgentID, "cat "+project+"/*/*/secret/f "+project+"/moved/moved/secret/f | tee /tmp/leak; true")
		leak, err := os.ReadFile(filepath.Join(w.files.Paths(a.AgentID).Tmp, "leak"))
		must(t, err)
		if (len(leak) == 0) != denied {
			t.Errorf("denied %t: it reads %q", denied, leak)
		}
		if w.masked(secret) != denied {
			t.Errorf("denied %t: the mask is wrong after the resurrection", denied)
		}
	}
}

// What an agent leaves in its pi directory and in its other places is not obeyed by the
// next start, and the server follows none of the links there.
func TestPlanted(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	a := w.run(agent.RunRequest{})
	pi := w.files.Paths(a.AgentID).Pi
	fresh := tree(t, pi)
	for name := range fresh {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(outside, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(outside, name), []byte("precious"), 0o600))
	}
	before := tree(t, outside)
	for what, script := range map[string]string{
		"edited":  "for f in $(find /pi-agent -type f); do echo evil >>$f; done; mkdir -p /pi-agent/extensions && echo evil >/pi-agent/extensions/evil.ts",
		"links":   "cd /pi-agent && for f in $(find . -type f); do ln -sf " + outside + "/$f $f; done; ln -s " + outside + " extensions",
		"gone":    "rm -rf /pi-agent/*",
		"strange": "cd /pi-agent && for f in $(find . -type f); do rm $f && mkfifo $f; done",
		"around":  "ln -s " + outside + " /tmp/pi-agent; ln -s " + outside + " /tmp/.pi; ln -s " + outside + " /home/agent/.pi; echo evil >>/pi-agent/auth.json",
	} {
		w.shell(a.AgentID, script)
		if cmp.Equal(fresh, tree(t, pi)) {
			t.Errorf("%s: control: nothing has changed", what)
		}
		w.again(a.AgentID)
		if diff := cmp.Diff(fresh, tree(t, pi)); diff != "" {
			t.Errorf("%s: after the next start: %s", what, diff)
		}
		if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
			t.Errorf("%s: outside: %s", what, diff)
		}
	}
}

// tree returns what the files in a directory are, by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		must(t, err)
		all[name] = d.Type().String()
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			must(t, err)
			all[name] = string(text)
		}
		return err
	}))
	return all
}
