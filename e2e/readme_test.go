package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An example is a row of README's table: a tool call and what is said of its answer.
type example struct {
	tool, args string
	answer     string
}

// readmeProject is the project directory of README's examples.
const readmeProject = "/home/me/project"

// The session that README shows, call by call, with a real pi: none is refused, and
// the answers have what the second column says.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client()
	project := filepath.Join(t.TempDir(), "project")
	made := write(t, filepath.Join(project, "main.go"), "package main\n")
	play(t, c, examples(t, "A first session", "run", "remove"), project)
	c.none()
	chain := play(t, c, examples(t, "Agents that start agents", "run", "rip"), project)
	call[obj](c, "remove", obj{"agent_id": chain})
	w.untouched()
	if _, err := os.Stat(made); err != nil {
		t.Errorf("the project is not what it was: %v", err)
	}
}

// play makes the calls of a table and returns the agent that they are about.
func play(t *testing.T, c *client, all []example, project string) (id string) {
	t.Helper()
	for _, e := range all {
		got := call[obj](c, e.tool, e.arguments(t, id, project))
		e.check(t, got)
		if id == "" {
			id, _ = got["agent_id"].(string)
		}
	}
	return id
}

// What README says to put into clients' settings is JSON that names one server.
func TestReadmeSettings(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(readme(t), -1)
	if len(blocks) < 2 {
		t.Errorf("README has %d blocks of JSON", len(blocks))
	}
	for _, b := range blocks {
		var settings struct {
			Servers map[string]struct{ Command string } `json:"mcpServers"`
		}
		if err := json.Unmarshal([]byte(b[1]), &settings); err != nil {
			t.Errorf("%v:\n%s", err, b[1])
			continue
		}
		for name, s := range settings.Servers {
			if !filepath.IsAbs(s.Command) {
				t.Errorf("the command of %s is %q", name, s.Command)
			}
		}
		if len(settings.Servers) != 1 {
			t.Errorf("no one server:\n%s", b[1])
		}
	}
}

func readme(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../README.md")
	must(t, err)
	return string(page)
}

// examples are the rows of the table below a heading. A row that is no tool
// call fails the test: it would not be run.
func examples(t *testing.T, heading, first, last string) (all []example) {
	t.Helper()
	_, section, _ := strings.Cut(readme(t), "## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, rows, ok := strings.Cut(section, "|---|---|\n")
	if !ok {
		t.Fatalf("README has no table in %q", heading)
	}
	row := regexp.MustCompile("^\\| `([a-z_]+) (\\{.*\\})` \\| (.*) \\|$")
	for line := range strings.Lines(rows) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("this row of README is no tool call: %s", line)
		}
		all = append(all, example{m[1], m[2], m[3]})
	}
	if len(all) == 0 || all[0].tool != first || all[len(all)-1].tool != last {
		t.Fatalf("%q does not go from %s to %s: %+v", heading, first, last, all)
	}
	return all
}

// arguments are those of the example, for an agent and a project that exist.
func (e example) arguments(t *testing.T, id, project string) (args obj) {
	t.Helper()
	text := strings.ReplaceAll(e.args, readmeProject, project)
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatalf("the arguments of %s: %v: %s", e.tool, err, text)
	}
	if _, ok := args["agent_id"]; ok {
		args["agent_id"] = id
	}
	if _, ok := args["agent_ids"]; ok {
		args["agent_ids"] = []string{id}
	}
	return args
}

// claim is one thing that the second column says: state `idle`, `delivery: hot_prompt`,
// or only the name of what is in the answer.
var claim = regexp.MustCompile("(state )?`([a-z_]+)(?:: ([a-z_]+))?`")

// check compares an answer with what README says of it.
func (e example) check(t *testing.T, got obj) {
	t.Helper()
	for _, m := range claim.FindAllStringSubmatch(e.answer, -1) {
		name, want := m[2], m[3]
		if m[1] != "" {
			name, want = "state", m[2]
		}
		if v, ok := got[name]; !ok || v == nil || want != "" && fmt.Sprint(v) != want {
			t.Errorf("%s: README says %q, but %s is %v", e.tool, e.answer, name, v)
		}
	}
}
