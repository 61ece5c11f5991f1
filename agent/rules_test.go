package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent"
	"pi-mcp/cage"
)

// masked reports whether a cage of this world has something mounted at path.
func (w *world) masked(path string) bool {
	w.t.Helper()
	return w.mounted(" " + path + " ")
}

// Automatic rules are made afresh at every start, told of while the process
// lives, and never mixed with what the caller asked for.
func TestAutomaticRules(t *testing.T) {
	w, project := newWorld(t), t.TempDir()
	first, second := filepath.Join(project, ".npmrc"), filepath.Join(project, ".netrc")
	must(t, os.WriteFile(first, nil, 0o600))
	a := w.run(agent.RunRequest{Grants: cage.Grants{Write: []string{project}}})
	asked := agent.Mounts{Write: []string{project}, Read: []string{}, Denied: []string{}}
	told := func(i agent.Info, path string) bool {
		return len(i.Warnings) == 1 && strings.Contains(i.Warnings[0], path)
	}
	if !told(a, first) || !told(w.info(a.AgentID), first) || told(a, second) {
		t.Errorf("warnings %q", a.Warnings)
	}
	if !w.masked(first) || w.masked(second) {
		t.Error("the mounts are not those of the first start")
	}
	must(t, os.WriteFile(second, nil, 0o600))
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	if i := w.info(a.AgentID); i.Warnings == nil || len(i.Warnings) > 0 {
		t.Errorf("warnings without a process: %q", i.Warnings)
	}
	res, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err)
	if !told(res.Info, second) || !w.masked(second) {
		t.Errorf("the second start did not look again: %q", res.Warnings)
	}
	if diff := cmp.Diff(asked, res.Mounts); diff != "" {
		t.Error(diff)
	}
}

// What cannot be kept is refused by the argument, and leaves nothing.
func TestAutomaticRefusals(t *testing.T) {
	w, project := newWorld(t), t.TempDir()
	inside := filepath.Join(project, ".claude", "commands")
	must(t, os.MkdirAll(inside, 0o700))
	grants := cage.Grants{Write: []string{project}}
	for _, bad := range []struct {
		arg string
		req agent.RunRequest
	}{
		{"write", agent.RunRequest{Grants: cage.Grants{Write: []string{project, inside}}}},
		{"cwd", agent.RunRequest{Grants: grants, Cwd: inside}},
		{"write", agent.RunRequest{Grants: cage.Grants{Write: []string{w.piDir("")}}}},
	} {
		_, err := w.sup.Run(t.Context(), w.who, bad.req)
		if e, ok := errors.AsType[*agent.ArgError](err); !ok || e.Arg != bad.arg {
			t.Errorf("%s: %v", bad.arg, err)
		}
	}
	w.empty()
	w.run(agent.RunRequest{Grants: grants, Cwd: project}) // the control
	w.run(agent.RunRequest{Grants: cage.Grants{Write: []string{project, filepath.Dir(inside)}}, Cwd: inside})
}

// A stored path must still be itself at the next start.
func TestStoredPaths(t *testing.T) {
	w, project := newWorld(t), t.TempDir()
	granted, gone := filepath.Join(project, "granted"), filepath.Join(project, "gone")
	must(t, os.Mkdir(granted, 0o700))
	must(t, os.Mkdir(gone, 0o700))
	a := w.run(agent.RunRequest{Grants: cage.Grants{Write: []string{granted}, Denied: []string{gone}}})
	again := func() error {
		_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
		must(t, err)
		_, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
		return err
	}
	must(t, again()) // the control
	must(t, os.Remove(gone))
	must(t, again()) // nothing shows it
	must(t, os.Rename(granted, granted+".was"))
	must(t, os.Symlink(granted+".was", granted))
	if e, ok := errors.AsType[*agent.ArgError](again()); !ok || e.Arg != "write" || !strings.Contains(e.Reason, "leads elsewhere") {
		t.Errorf("a grant that became a symlink: %v", e)
	}
}
