package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent"
	"pi-mcp/cage"
)

// places are directories and links of a host, by their names below one directory.
func places(t *testing.T) func(string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(name string) string { return filepath.Join(root, name) }
	for _, d := range []string{"work/sub/deep", "work/secret/below", "work/ro", "work2", "data", "outside"} {
		must(t, os.MkdirAll(at(d), 0o700))
	}
	for name, target := range map[string]string{
		"work/link": at("outside"), "work/dangling": at("nowhere"), "work/inside": at("work/sub"), "work/closed": at("work/secret/below"),
	} {
		must(t, os.Symlink(target, at(name)))
	}
	return at
}

// An agent gives on what it has itself, or less. Whatever else there is, is refused in
// the same words as what there is not, and nothing is made.
func TestChildGrants(t *testing.T) {
	w, at := newWorld(t), places(t)
	p := w.run(agent.RunRequest{Grants: cage.Grants{
		Write: []string{at("work")}, Read: []string{at("data"), at("work/ro")}, Denied: []string{at("work/secret")},
	}})
	who := w.as(p.AgentID)
	run := func(arg, path string) error {
		req := agent.RunRequest{}
		switch arg {
		case "write":
			req.Grants.Write = []string{path}
		case "read":
			req.Grants.Read = []string{path}
		case "denied":
			req.Grants = cage.Grants{Write: []string{at("work")}, Denied: []string{path}}
		case "cwd":
			req.Grants.Write, req.Cwd = []string{at("work")}, path
		}
		res, err := w.sup.Run(t.Context(), who, req)
		if err == nil {
			w.remove(res.AgentID)
		}
		return err
	}
	for arg, names := range map[string][]string{
		"write":  {"work", "work/sub", "work/inside"},
		"read":   {"work", "work/sub", "work/ro", "data"},
		"denied": {"work/sub"},
		"cwd":    {"work", "work/sub/deep"},
	} {
		for _, name := range names {
			if err := run(arg, at(name)); err != nil {
				t.Errorf("%s of %s: %v", arg, name, err)
			}
		}
	}
	if err := run("cwd", "/home/agent"); err != nil {
		t.Errorf("a working directory that every cage has: %v", err)
	}
	before := w.rows()
	words := ""
	for _, path := range []string{
		at("work2"), at("outside"), at("nowhere"), at("work/nothing"), at(""), "/", "/etc/passwd", "/etc/nothing",
		at("work/link"), at("work/dangling"), at("work/link/x"), at("work/closed"), at("work/secret"), at("work/secret/below"), at("work/secret/no"),
		at("work") + "/../outside", at("work") + "/../work2", at("work") + "/link/../work2", at("work") + "/sub/../../nowhere",
		"/tmp", "/tmp/mine", "/home/agent/mine", "work", "../outside", w.files.Paths(p.AgentID).Tmp, w.files.Paths(p.AgentID).Session,
	} {
		for _, arg := range []string{"write", "read", "denied", "cwd"} {
			if arg == "cwd" && path == "/tmp" {
				continue // every cage has one
			}
			if arg == "denied" && path == at("work/secret") {
				if err := run(arg, path); err != nil {
					t.Errorf("what is denied to the parent cannot be denied to its child: %v", err)
				}
				before = w.rows()
				continue
			}
			err := run(arg, path)
			if err == nil {
				t.Errorf("%s of %s is granted", arg, path)
				continue
			}
			said := strings.Replace(strings.TrimPrefix(err.Error(), arg), path, "", 1)
			if words == "" {
				words = said
			}
			if said != words {
				t.Errorf("%s of %s: %s", arg, path, said)
			}
		}
	}
	for _, name := range []string{"data", "work/ro"} {
		wantArg(t, run("write", at(name)), "write", "only read")
	}
	if after := w.rows(); after != before {
		t.Errorf("%d things before, %d after", before, after)
	}
	other := w.run(agent.RunRequest{})
	_, err := w.sup.Run(t.Context(), w.as(other.AgentID), agent.RunRequest{Grants: cage.Grants{Read: []string{at("data")}}})
	wantArg(t, err, "read", "not inside your own") // one without grants gives none
}

// What is closed or read-only to an agent is so to its children, and to theirs.
func TestChildInherits(t *testing.T) {
	w, at := newWorld(t), places(t)
	p := w.run(agent.RunRequest{Grants: cage.Grants{
		Write: []string{at("work")}, Read: []string{at("work/ro")}, Denied: []string{at("work/secret")},
	}})
	c := w.child(p.AgentID, agent.RunRequest{Grants: cage.Grants{Write: []string{at("work")}, Denied: []string{at("work/sub")}}})
	want := agent.Mounts{Write: []string{at("work")}, Read: []string{at("work/ro")}, Denied: []string{at("work/secret"), at("work/sub")}}
	if diff := cmp.Diff(want, sorted(c.Mounts)); diff != "" {
		t.Error(diff)
	}
	g := w.child(c.AgentID, agent.RunRequest{Grants: cage.Grants{Write: []string{at("work")}}})
	if diff := cmp.Diff(want, sorted(g.Mounts)); diff != "" {
		t.Error(diff)
	}
	_, err := w.sup.Run(t.Context(), w.as(c.AgentID), agent.RunRequest{Grants: cage.Grants{Read: []string{at("work/sub/deep")}}})
	wantArg(t, err, "read", "not inside your own") // what the child closed to itself
	_, err = w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{Grants: cage.Grants{Read: []string{at("work/sub/deep")}}})
	must(t, err) // the control: its parent has it
}

func sorted(m agent.Mounts) agent.Mounts {
	slices.Sort(m.Denied)
	return m
}

// A child reaches what its parent does, or less.
func TestChildNetwork(t *testing.T) {
	for _, tc := range []struct {
		parent, child, want string // want "": refused
	}{
		{"provider", "", "provider"},
		{"provider", "provider", "provider"},
		{"provider", "internet", ""},
		{"provider", "host", ""},
		{"provider", "example.org:443", ""},
		{"internet", "", "internet"},
		{"internet", "provider", "provider"},
		{"internet", "host", ""},
		{"example.org:443", "example.org:443", "example.org:443"},
		{"example.org:443", "example.org:80", ""},
		{"example.org:443", "example.org:443, example.com:443", ""},
		{"example.org:443", "internet", ""},
	} {
		w := newWorld(t)
		p := w.run(agent.RunRequest{Network: tc.parent})
		before := w.rows()
		res, err := w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{Network: tc.child})
		switch {
		case tc.want == "":
			wantArg(t, err, "network", "more than your own")
			if after := w.rows(); after != before {
				t.Errorf("%d things before, %d after", before, after)
			}
		case err != nil:
			t.Errorf("%q of %q: %v", tc.child, tc.parent, err)
		case strings.Join(res.Network.Policy, " ") != tc.want:
			t.Errorf("%q of %q is %q", tc.child, tc.parent, res.Network.Policy)
		}
	}
}

// At each start an agent's rules are held against what its parent was given, as both
// are by then, also when the parent is gone.
func TestChildIsNarrowedAgain(t *testing.T) {
	for _, removed := range []bool{false, true} {
		for name, tc := range map[string]struct {
			change func(t *testing.T, w *world, id string, at func(string) string)
			arg    string // "": it starts
		}{
			"nothing": {func(*testing.T, *world, string, func(string) string) {}, ""},
			"its path leads out": {func(t *testing.T, _ *world, _ string, at func(string) string) {
				must(t, os.Rename(at("work/sub"), at("outside/sub")))
				must(t, os.Symlink(at("outside/sub"), at("work/sub")))
			}, "write"},
			"its parent's path leads out": {func(t *testing.T, _ *world, _ string, at func(string) string) {
				must(t, os.Rename(at("work"), at("outside/work")))
				must(t, os.Symlink(at("outside/work"), at("work")))
			}, "write"},
			"more than its parent's": {func(t *testing.T, w *world, id string, at func(string) string) {
				row := w.row(id)
				row.Write = append(row.Write, at("outside"))
				must(t, w.db.Save(t.Context(), row))
			}, "write"},
			"more than its parent may write": {func(t *testing.T, w *world, id string, at func(string) string) {
				row := w.row(id)
				row.Write, row.Read = append(row.Write, at("work/ro")), nil
				must(t, w.db.Save(t.Context(), row))
			}, "write"},
			"what is closed to its parent": {func(t *testing.T, w *world, id string, at func(string) string) {
				row := w.row(id)
				row.Read, row.Denied = append(row.Read, at("work/secret/below")), nil
				must(t, w.db.Save(t.Context(), row))
			}, "read"},
			"a wider network": {func(t *testing.T, w *world, id string, _ func(string) string) {
				row := w.row(id)
				row.Network = "internet"
				must(t, w.db.Save(t.Context(), row))
			}, "network"},
		} {
			t.Run(name+map[bool]string{true: ", the parent removed"}[removed], func(t *testing.T) {
				w, at := newWorld(t), places(t)
				p := w.run(agent.RunRequest{Network: "provider", Grants: cage.Grants{
					Write: []string{at("work")}, Read: []string{at("work/ro")}, Denied: []string{at("work/secret")},
				}})
				c := w.child(p.AgentID, agent.RunRequest{Grants: cage.Grants{Write: []string{at("work/sub")}}})
				w.rip(c.AgentID)
				if removed {
					w.remove(p.AgentID)
				}
				tc.change(t, w, c.AgentID, at)
				before := w.info(c.AgentID)
				_, err := w.sup.Resurrect(t.Context(), w.who, c.AgentID, nil)
				if tc.arg == "" {
					must(t, err)
					return
				}
				wantArg(t, err, tc.arg, "")
				if after := w.info(c.AgentID); after.State != before.State || after.Lifecycle.Retries != 0 {
					t.Errorf("after the refusal: %+v", after)
				}
			})
		}
	}
}

// A denied path stays closed to a child when its own row no longer says so.
func TestChildStaysClosed(t *testing.T) {
	w, at := newWorld(t), places(t)
	p := w.run(agent.RunRequest{Grants: cage.Grants{Write: []string{at("work")}, Denied: []string{at("work/secret")}}})
	c := w.child(p.AgentID, agent.RunRequest{Grants: cage.Grants{Write: []string{at("work")}}})
	w.rip(c.AgentID)
	w.remove(p.AgentID)
	row := w.row(c.AgentID)
	row.Denied = nil
	must(t, w.db.Save(t.Context(), row))
	if w.masked(at("work/secret")) {
		t.Fatal("the control: something is mounted although nothing runs")
	}
	w.resurrect(c.AgentID)
	if !w.masked(at("work/secret")) {
		t.Error("what is closed to the parent is open to the child")
	}
}

// What is closed automatically inside a parent's grant is closed to its child at once,
// also where the child's own grant begins so far inside that its place does not tell.
func TestChildInheritsAutomatic(t *testing.T) {
	for _, closed := range []string{".git/hooks/", ".git/config", ".docker/config.json", ".config/gh/", "sub/.ssh/"} {
		t.Run(closed, func(t *testing.T) {
			w := newWorld(t)
			work := filepath.Join(t.TempDir(), "work")
			place := filepath.Join(work, closed)
			must(t, os.MkdirAll(filepath.Dir(place), 0o700))
			if strings.HasSuffix(closed, "/") {
				must(t, os.MkdirAll(place, 0o700))
			} else {
				must(t, os.WriteFile(place, []byte("closed"), 0o600))
			}
			p := w.run(agent.RunRequest{Grants: cage.Grants{Write: []string{work}}})
			if !w.mounted(place + " ro") {
				t.Error("the control: it is open to the parent")
			}
			inside := filepath.Dir(place)
			w.child(p.AgentID, agent.RunRequest{Grants: cage.Grants{Write: []string{inside}}})
			w.rip(p.AgentID)
			if !w.mounted(inside + " rw") {
				t.Error("the control: the child may not write what it was granted")
			}
			if !w.mounted(place + " ro") {
				t.Error("it is open to the child")
			}
		})
	}
}
