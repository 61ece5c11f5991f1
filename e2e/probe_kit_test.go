package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// decoyVar is in the environment of the host of probes and of its server, and must be
// in no other.
const decoyVar = "PROBE_DECOY"

// A hostWorld is what e2e/probe reads; its fields are explained there.
type hostWorld struct {
	Dir, Decoy, Name                   string
	First, Host, Port4, Port6, Shared  int
	Home, Agents, Write, Read, Session string
	ReadMount, Mask                    string
}

// A report is one line of e2e/probe.
type report struct {
	Number                int
	Name, Outcome, Detail string
}

// probeCaged has an agent of a server run the probe in its cage.
func (c *client) probeCaged(h hostWorld, network string) []report {
	c.t.Helper()
	a := c.run(obj{
		"network": network, "cwd": h.Write, "write": []string{h.Write}, "read": []string{h.Read, h.Dir + "/bin"},
		"denied": []string{h.Write + "/a/b/hidden", h.Write + "/hidden"},
	})
	h.First, h.Session, h.ReadMount, h.Mask = 1, "/agent_session.jsonl", h.Read, h.Write+"/a/b/hidden"
	text, err := json.Marshal(h)
	must(c.t, err)
	// No argument may name the host's directory: that is what probe 11 looks for.
	script := "../bin/probe </tmp/world >/tmp/out 2>&1; echo $? >/tmp/code; mv /tmp/code /tmp/done"
	c.ask(a.ID, act(do("file", "/tmp/world", "content", string(text)), do("spawn", []string{"/bin/sh", "-c", script}),
		do("wait_file", "/tmp/done"), do("turn", "done")))
	out, err := os.ReadFile(c.arrives(a, "out"))
	must(c.t, err)
	if code, err := os.ReadFile(c.arrives(a, "done")); string(code) != "0\n" {
		c.t.Fatalf("the probe ended with %q, %v: %s", code, err, out)
	}
	all, err := reports(out)
	must(c.t, err)
	return all
}

// probeFree runs the probe where it should get through: an ordinary user's outside
// any cage; root's with all capabilities, but in a mount namespace of its own, so that
// what it mounts and unmounts is nobody else's.
func probeFree(ctx context.Context, w hostWorld) ([]report, error) {
	argv := []string{w.Dir + "/bin/probe"}
	if os.Getuid() == 0 {
		argv = append([]string{"bwrap", "--cap-add", "ALL", "--bind", "/", "/", "--dev-bind", "/dev", "/dev",
			"--ro-bind", w.ReadMount, w.ReadMount, "--tmpfs", w.Mask, "--"}, argv...)
	}
	in, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	root, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = bytes.NewReader(in), &stderr, []*os.File{root}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return reports(out)
}

func reports(out []byte) (all []report, err error) {
	for line := range strings.Lines(string(out)) {
		var r report
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		all = append(all, r)
	}
	return all, nil
}
