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
	"testing"

	"golang.org/x/sys/unix"
)

// probeHost is the host of probes, as the user that it runs as: it says where everything
// is, and when its input ends it runs the probe where nothing stops it. Below dir are the
// probe and home's neighbours, see layout.
func probeHost(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
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
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(w); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	control, err := probeFree(ctx, w)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	return out.Encode(control)
}

// A probeHostProcess is a running probeHost.
type probeHostProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.Closer
	out    *json.Decoder
	stderr bytes.Buffer
	world  hostWorld
}

// host starts the host of the world's probes.
func (w *world) host() *probeHostProcess {
	t := w.t.(*testing.T)
	t.Helper()
	h := &probeHostProcess{t: t, cmd: w.command(nil, "probes", w.dir)}
	h.cmd.Path, h.cmd.Args[0], h.cmd.Stderr = w.path("server"), w.path("server"), &h.stderr
	in, err := h.cmd.StdinPipe()
	must(t, err)
	out, err := h.cmd.StdoutPipe()
	must(t, err)
	must(t, h.cmd.Start())
	t.Cleanup(func() { in.Close(); _ = h.cmd.Wait() })
	h.in, h.out = in, json.NewDecoder(out)
	h.read(&h.world)
	return h
}

func (h *probeHostProcess) read(into any) {
	h.t.Helper()
	if err := h.out.Decode(into); err != nil {
		h.in.Close()
		_ = h.cmd.Wait()
		h.t.Fatalf("the host of the probes: %v: %s", err, h.stderr.Bytes())
	}
}

// control ends the host with the probes that nothing stops.
func (h *probeHostProcess) control() (all []report) {
	h.t.Helper()
	h.in.Close()
	h.read(&all)
	return all
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
