package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

// decoyVar is in the environment of a server of probes, and must be in no other.
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

// probed is what a server of probes says.
type probed struct{ Cage, Control []report }

// probeServer is a server with one agent, the probe, as the user that it runs as.
// Below dir are probe, init and home's neighbours, see layout.
func probeServer(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Max = min(files.Max, 4096) // so that there is room to raise it
	files.Cur = files.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	w, end, err := hostile(dir)
	defer end()
	if err != nil {
		return err
	}
	var got probed
	if got.Cage, err = probeCaged(ctx, w); err != nil {
		return fmt.Errorf("caged: %w", err)
	}
	if got.Control, err = probeFree(ctx, w); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// hostile opens all that the host has for an agent to find.
func hostile(dir string) (w hostWorld, end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	w = hostWorld{
		Dir: dir, Decoy: os.Getenv(decoyVar), First: os.Getpid(), Home: dir + "/home", Agents: dir + "/state/agents",
		Write: dir + "/write", Read: dir + "/read", Session: dir + "/agent/session",
		ReadMount: dir + "/readmount", Mask: dir + "/mask", Shared: 0x70690000 + os.Getpid()%0xffff,
	}
	if w.Name, err = os.Hostname(); err != nil {
		return w, end, err
	}
	ports := map[string]*int{"127.0.0.1:0": &w.Port4, "[::1]:0": &w.Port6}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "@" + filepath.Base(dir), w.Read + "/docker.sock", w.Home + "/agent.sock"} {
		kind := "unix"
		if ports[address] != nil {
			kind = "tcp"
		}
		l, err := net.Listen(kind, address)
		if err != nil {
			if address == "[::1]:0" {
				continue // no IPv6 here
			}
			return w, end, err
		}
		ends = append(ends, func() { l.Close() })
		if ports[address] != nil {
			*ports[address] = l.Addr().(*net.TCPAddr).Port
		}
	}
	id, err := unix.SysvShmGet(w.Shared, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		return w, end, err
	}
	ends = append(ends, func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	other := exec.Command("/bin/sh", "-c", "read line", dir)
	in, err := other.StdinPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		return w, end, err
	}
	w.Host = other.Process.Pid
	ends = append(ends, func() { in.Close(); _ = other.Wait() })
	return w, end, nil
}

// probeCaged runs the probe in a cage as an agent's is, see spec in package agent.
func probeCaged(ctx context.Context, w hostWorld) ([]report, error) {
	b, err := cage.Open(cage.Config{Init: w.Dir + "/init", StateDir: w.Dir + "/state/cage"})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	policy := cage.Policy{Forbidden: []string{w.Dir + "/state"}, Programs: []string{w.Dir + "/probe"}, Home: w.Home}
	asked := cage.Grants{Write: []string{w.Write}, Read: []string{w.Read}, Denied: []string{w.Write + "/a/b/hidden", w.Write + "/hidden"}}
	if asked, err = asked.Resolve(policy); err != nil {
		return nil, err
	}
	rules, err := asked.Complete(policy)
	if err != nil {
		return nil, err
	}
	agent := w.Dir + "/agent/"
	dirs, _, err := rules.Grants.Under("/tmp")
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		if err := os.MkdirAll(agent+"tmp/"+d, 0o755); err != nil {
			return nil, err
		}
	}
	spec := cage.Spec{
		Grants: rules.Grants, Dir: w.Write, Listen: []string{"127.0.0.1:3128"},
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/home/agent", "USER=agent", "TMPDIR=/tmp"},
		Binds: []cage.Bind{
			{Source: agent + "tmp", Target: "/tmp", Write: true},
			{Source: agent + "home", Target: "/home/agent", Write: true},
			{Source: agent + "pi", Target: "/pi-agent", Write: true},
			{Source: agent + "session", Target: "/agent_session.jsonl", Write: true},
			{Source: w.Dir + "/probe", Target: "/opt/pi-mcp/probe"},
		},
	}
	p, err := b.Start(ctx, spec, []string{"/opt/pi-mcp/probe"})
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, p.Kill)()
	w.First, w.Session, w.ReadMount, w.Mask = 1, "/agent_session.jsonl", w.Read, w.Write+"/a/b/hidden"
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(p.Stderr)
		said <- string(text)
	}()
	err = json.NewEncoder(p.In).Encode(w)
	p.In.Close()
	out, _ := io.ReadAll(p.Out)
	p.Out.Close()
	exit, stderr := p.Exit(), <-said
	p.Stderr.Close()
	if err != nil || exit.Code != 0 {
		return nil, fmt.Errorf("%v, exit %+v: %s", err, exit, stderr)
	}
	return reports(out)
}

// probeFree runs the probe where it should get through: an ordinary user's outside
// any cage; root's with all capabilities, but in a mount namespace of its own, so that
// what it mounts and unmounts is nobody else's.
func probeFree(ctx context.Context, w hostWorld) ([]report, error) {
	argv := []string{w.Dir + "/probe"}
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
