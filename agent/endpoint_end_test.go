package agent_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pi-mcp/agent"
)

// The token is worthless from the end of the process on, however it ends, and each
// start has its own.
func TestEndpointToken(t *testing.T) {
	w, d := newDesk(t)
	for name, end := range map[string]func(id string){
		"rip": func(id string) { _, err := w.sup.Rip(t.Context(), w.who, id, false); must(t, err) },
		"exit": func(id string) {
			w.send(id, act(do("exit", 3)))
			w.untilState(id, agent.Exited)
		},
		"kill": func(id string) {
			w.send(id, act(do("signal", "KILL")))
			w.untilState(id, agent.Exited)
		},
	} {
		a := w.run(host)
		first := w.door(a.AgentID)
		if i, err := os.Stat(w.mcpJSON(a.AgentID)); err != nil || i.Mode().Perm() != 0o600 || len(first.token) != 43 {
			t.Errorf("%s: mcp.json is %v (%v), the token %d characters", name, i.Mode(), err, len(first.token))
		}
		if got := first.ask(t); got.status != 200 {
			t.Errorf("%s: before: %+v", name, got)
		}
		end(a.AgentID)
		if got := first.ask(t); !got.refused() || d.ends(a.AgentID) != 1 {
			t.Errorf("%s: after: %+v, %d ends", name, got, d.ends(a.AgentID))
		}
		_, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
		must(t, err)
		second := w.door(a.AgentID)
		if got := second.ask(t, header("Authorization", "Bearer "+first.token)); got.status != 401 {
			t.Errorf("%s: the old token at the new endpoint: %+v", name, got)
		}
		if got := second.ask(t); got.status != 200 {
			t.Errorf("%s: the new token: %+v", name, got)
		}
		w.remove(a.AgentID)
		if got := second.ask(t); !got.refused() || d.ends(a.AgentID) != 2 {
			t.Errorf("%s: after the removal: %+v, %d ends", name, got, d.ends(a.AgentID))
		}
	}
	atRest(t)
}

// The token is revoked when a stop begins: what the stop does not know of cannot be
// started any more while pi takes its time to end.
func TestEndpointDuringStop(t *testing.T) {
	w, d := newDesk(t, func(c *agent.Config) { c.Grace, c.CloseGrace = time.Hour, time.Millisecond })
	w.script("deaf", map[string]any{"eof": []any{do("ignore_eof", true)}})
	a := w.run(agent.RunRequest{Model: "deaf", Network: "host"})
	door := w.door(a.AgentID)
	go w.sup.Rip(t.Context(), w.who, a.AgentID, false) // ends with the world
	eventually(t, func() bool { return door.ask(t).refused() }, func() string { return "the token is still good" })
	if i := w.untilState(a.AgentID, agent.Active); i.PID == nil { // the state is written a moment after that
		t.Error("the control: it has no process any more")
	}
	w.sup.Close()
	if n := d.ends(a.AgentID); n != 1 {
		t.Errorf("%d ends", n)
	}
	atRest(t)
}

// Whatever the agent's connections are doing, the end comes, and nothing is left.
func TestEndpointEnds(t *testing.T) {
	for name, end := range map[string]func(w *world, id string){
		"rip":      func(w *world, id string) { _, err := w.sup.Rip(t.Context(), w.who, id, false); must(t, err) },
		"remove":   func(w *world, id string) { w.remove(id) },
		"shutdown": func(w *world, _ string) { w.sup.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w, d := newDesk(t)
			a := w.run(host)
			door := w.door(a.AgentID)
			var conns []net.Conn
			for _, text := range []string{
				"", "POST /mcp HTTP/1.1\r\nHost: " + door.address() + "\r\nX-Slow: ", // the head never ends
				strings.Replace(door.request(""), "Content-Length: 2", "Content-Length: 1000", 1), // nor the body
				door.request("X-Hold: yes\r\n"),
			} {
				conns = append(conns, door.dial(t, text))
			}
			idle := door.dial(t, door.request(""))
			if got := status(t, idle); !strings.Contains(got, "200") {
				t.Errorf("the control: %s", got)
			}
			if id := <-d.holding; id != a.AgentID {
				t.Errorf("%s holds", id)
			}
			end(w, a.AgentID)
			for i, c := range append(conns, idle) {
				buf := make([]byte, 4096)
				n, err := c.Read(buf)
				for err == nil {
					n, err = c.Read(buf)
				}
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Errorf("connection %d: %d bytes, %v", i, n, err)
				}
			}
			if n := d.ends(a.AgentID); n != 1 {
				t.Errorf("%d ends", n)
			}
			atRest(t)
		})
	}
}

// A start that fails leaves no listener and no token, however far it came.
func TestEndpointOfFailedStart(t *testing.T) {
	w, d := newDesk(t)
	w.script("short", map[string]any{"start": []any{do("exit", 3)}})
	if _, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "short", Network: "host"}); err == nil {
		t.Error("a pi that exits at once starts")
	}
	if len(d.made) != 1 || len(d.ended) != 1 {
		t.Errorf("%d endpoints were served, %d ended", len(d.made), len(d.ended))
	}
	a := w.run(host)
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	for _, log := range []string{w.files.Paths(a.AgentID).StdoutLog, filepath.Join(w.dir, "host", "models.json")} {
		must(t, os.RemoveAll(log))
		must(t, os.Mkdir(log, 0o700)) // cannot be opened, cannot be read
		if _, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil); err == nil {
			t.Errorf("it starts without %s", log)
		}
		must(t, os.Remove(log))
		atRest(t)
	}
	if len(d.made) != 2 {
		t.Errorf("%d endpoints were served", len(d.made))
	}
	_, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err) // the control
	if got := w.door(a.AgentID).ask(t); got.status != 200 {
		t.Errorf("the control: %+v", got)
	}
	if listening(t) != 1 {
		t.Errorf("the control: %d sockets listen", listening(t))
	}
}
