package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// start runs a server whose stdin is at its end, and returns what it printed.
func (w *world) start(env []string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := w.command(env, args...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	must(w.t, cmd.Start())
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			w.t.Fatal(err)
		}
	}
	return out.String(), words.String(), cmd.ProcessState.ExitCode()
}

// flagNames are the flags that --help shows.
func (w *world) flagNames() (names []string) {
	w.t.Helper()
	_, help, _ := w.start(nil, "--help")
	for _, m := range regexp.MustCompile(`(?m)^ +--([a-z-]+)`).FindAllStringSubmatch(help, -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		w.t.Fatalf("--help shows the flags %v:\n%s", names, help)
	}
	return names
}

// With every flag, as a flag and as an environment variable, stdout carries
// messages only: the wire looks at every line.
func TestF42GoodFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := map[string]string{
		"transport": "stdio", "db": w.path("other", "db"), "agents-dir": w.path("other", "agents"),
		"provider": "fake", "model": "plain", "pi": w.path("pi", "pi"), "node": "node", "bwrap": "bwrap",
		"refresh-pause": "0", "handshake": "1m", "grace": "1.5", "max-agents": "2", "max-group-agents": "none",
		"max-message": "64KiB", "max-stdout": "1MiB", "max-stderr": "1GiB", "log-level": "debug",
		"network": "github.com, *.npmjs.org:443", "egress-allow": "10.0.0.7:443,[fd00::1]:80",
		"max-processes": "512", "max-file-size": "1GiB",
		"max-depth": "1", "max-descendants": "none", "max-callbacks": "10", "callback-hold": "30s", "agent-scope": "group", "child-provider": "any",
		"max-tmp": "1GiB", "max-tmp-files": "none", "max-session": "64MiB", "max-memory": "2GiB", "max-cpu": "1.5", "check-pause": "1",
		"child-mcp": "off",
	}
	if uncounted() {
		good["max-processes"] = "none"
	}
	var flags, env []string
	for _, name := range w.flagNames() {
		if name == "help" || name == "version" {
			continue
		}
		value, ok := good[name]
		if !ok {
			t.Errorf("a new flag: say here what a good value of --%s is, and below what a bad one is", name)
		}
		flags = append(flags, "--"+name, value)
		env = append(env, "PI_MCP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
	for name, c := range map[string]*wire{"flags": w.wire(nil, flags...), "environment": w.wire(env), "serve": w.wire(env, "serve")} {
		c.hello()
		c.answer(c.ask("tools/list", obj{}))
		a := c.do("run", obj{})
		has(t, "the agent of a server with every "+name, a.Artifacts.Dir, w.path("other", "agents"))
		c.do("send_message", obj{"agent_id": a.ID, "message": "hello"})
		c.do("remove", obj{"agent_id": a.ID})
		must(t, c.in.Close())
		if code := c.exit(); code != 0 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
}

// A server that cannot start says why on stderr, names the flag, and exits with 1.
// On stdout there is nothing.
func TestF42BadFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := write(t, w.path("a-file"), "not a directory\n")
	newer := w.path("newer")
	db, err := sql.Open("sqlite", newer)
	must(t, err)
	_, err = db.Exec(`pragma user_version = 9999`)
	must(t, err)
	must(t, db.Close())
	type bad struct {
		args []string
		env  string
		says []string
	}
	cases := []bad{
		{args: []string{"--no-such-flag"}, says: []string{"no-such-flag", "--help"}},
		{args: []string{"--db"}, says: []string{"db"}},
		{args: []string{"no-such-command"}, says: []string{"no-such-command", "--help"}},
		{args: []string{"serve", "more"}, says: []string{"more", "--help"}},
		{args: []string{"--transport", "pigeon"}, says: []string{"--transport", "pigeon"}},
		{args: []string{"--network", "a/b"}, says: []string{"--network", "a/b"}},
		{args: []string{"--egress-allow", "10.0.0.7"}, says: []string{"--egress-allow", "10.0.0.7", "ADDRESS:PORT"}},
		{args: []string{"--child-provider", "all"}, says: []string{"--child-provider", "all", "own or any"}},
		{args: []string{"--agent-scope", "all"}, says: []string{"--agent-scope", "all", "descendants or group"}},
		{args: []string{"--log-level", "loud"}, says: []string{"--log-level", "loud"}},
		{args: []string{"--db", file + "/db"}, says: []string{"--db", file + "/db"}},
		{args: []string{"--db", "/proc/pi-mcp/db"}, says: []string{"--db", "/proc/pi-mcp"}},
		{args: []string{"--db", w.path("home")}, says: []string{"--db", w.path("home")}},
		{args: []string{"--db", file}, says: []string{"--db", file}},
		{args: []string{"--db", newer}, says: []string{"--db", newer, "newer"}},
		{args: []string{"--agents-dir", file}, says: []string{"--agents-dir", file}},
		{args: []string{"--agents-dir", "/proc/pi-mcp"}, says: []string{"--agents-dir", "/proc/pi-mcp"}},
	}
	for _, name := range []string{"refresh-pause", "handshake", "grace", "max-agents", "max-group-agents", "max-message", "max-stdout", "max-stderr", "max-processes", "max-file-size",
		"max-depth", "max-descendants", "max-callbacks", "callback-hold", "child-mcp",
		"max-tmp", "max-tmp-files", "max-session", "max-memory", "max-cpu", "check-pause"} {
		variable := "PI_MCP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		for _, value := range []string{"soon", "-1", "1e99", "10XB"} {
			cases = append(cases, bad{args: []string{"--" + name, value}, says: []string{name, value}},
				bad{env: variable + "=" + value, says: []string{variable, value}})
		}
	}
	for _, tc := range cases {
		stdout, stderr, code := w.start([]string{tc.env}, tc.args...)
		if stdout != "" || code != 1 {
			t.Errorf("%v %s: exit code %d, stdout %q", tc.args, tc.env, code, stdout)
		}
		has(t, strings.Join(append(tc.args, tc.env), " "), stderr, tc.says...)
	}
}

// What people ask for goes to stderr too, except for the version.
func TestF42Help(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"serve", "--help"}, {"--version"}, {"-v"}} {
		if stdout, stderr, code := w.start(nil, args...); stdout != "" || stderr == "" || code != 0 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if stdout, stderr, code := w.start(nil, "version"); stdout != "devel\n" || stderr != "" || code != 0 {
		t.Errorf("version: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if stdout, _, code := w.start(nil); stdout != "" || code != 0 { // stdin is at its end
		t.Errorf("without a client: exit code %d, stdout %q", code, stdout)
	}
}
