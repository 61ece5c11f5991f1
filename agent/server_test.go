package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/agent"
	"pi-mcp/store"
)

// A server that stops takes its agents with it, whatever they are doing, and
// the next one finds them exited and can bring them back.
func TestClose(t *testing.T) {
	w := newWorld(t)
	idle := w.run(agent.RunRequest{})
	busy := w.run(agent.RunRequest{})
	w.send(busy.AgentID, act(record("agent_start"), do("wait_file", "/tmp/never")))
	w.untilState(busy.AgentID, agent.Active)
	w.script("deaf", map[string]any{"on": map[string]any{"prompt": []any{do("hang", true)}}, "eof": []any{do("ignore_eof", true)}})
	deaf := w.run(agent.RunRequest{Model: "deaf"})
	w.sup.Close()
	w.noProcess()
	if _, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{}); !errors.Is(err, agent.ErrStopping) {
		t.Errorf("run after the end: %v", err)
	}
	must(t, w.db.Close())
	w.open()
	for _, id := range []string{idle.AgentID, busy.AgentID, deaf.AgentID} {
		i := w.info(id)
		if i.State != agent.Exited || i.Lifecycle.SelfExits != 0 || i.LastError == nil || *i.LastError != "stopped with the server" {
			t.Errorf("%s: %+v", id, i)
		}
	}
	_, err := w.sup.Resurrect(t.Context(), w.who, busy.AgentID, nil)
	must(t, err)
}

// Two servers on one database: each sees all agents, and neither touches the
// other's live ones.
func TestF53TwoServers(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	other := *w
	other.open() // the start of a second server
	if i := other.info(a.AgentID); i.State != agent.Idle || i.PID == nil {
		t.Errorf("the other server sees %+v", i)
	}
	_, err := other.sup.Send(t.Context(), w.who, a.AgentID, "hello", agent.FollowUp, false)
	foreign, ok := errors.AsType[*agent.ForeignError](err)
	if !ok || foreign.PID != os.Getpid() {
		t.Errorf("send by the other: %v", err)
	}
	for name, op := range map[string]func() error{
		"rip":       func() error { _, err := other.sup.Rip(t.Context(), w.who, a.AgentID, false); return err },
		"remove":    func() error { _, err := other.sup.Remove(t.Context(), w.who, a.AgentID, false); return err },
		"resurrect": func() error { _, err := other.sup.Resurrect(t.Context(), w.who, a.AgentID, nil); return err },
		"abort":     func() error { _, err := other.sup.Abort(t.Context(), w.who, a.AgentID, true); return err },
	} {
		if _, ok := errors.AsType[*agent.ForeignError](op()); !ok {
			t.Errorf("%s by the other: %v", name, op())
		}
	}
	w.send(a.AgentID, act(do("turn", "still here"))) // the control
	w.settled(a.AgentID, 1)
	_, err = w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	_, err = other.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err) // a stopped agent is anybody's
}

// Agents of a dead server: the one that never answered is gone with all that was
// made, a removal is finished, the others are exited and say why.
func TestLostAgents(t *testing.T) {
	w := newWorld(t)
	alive := w.run(agent.RunRequest{})
	stopped := w.run(agent.RunRequest{})
	w.sup.Close()
	// What a SIGKILL leaves: rows of an owner whose lock is free.
	row := w.row(alive.AgentID)
	row.State, row.Living, row.Owner = "active", true, "00000000-0000-4000-8000-000000000000"
	must(t, w.db.Save(t.Context(), row))
	half := w.row(stopped.AgentID)
	half.Removing, half.Owner = true, row.Owner
	must(t, w.db.Save(t.Context(), half))
	young := row
	young.ID, young.State, young.Ready = "01a1964b-2c01-70a5-b520-78f933cdafad", "starting", false
	must(t, w.files.Create(young.ID, []byte("{}\n")))
	must(t, w.db.Insert(t.Context(), young, 0))
	again := row
	again.ID, again.State, again.Resume = "01a1964b-2c01-70a5-b520-78f933cdafae", "starting", "ripped"
	must(t, w.files.Create(again.ID, []byte("{}\n")))
	must(t, w.db.Insert(t.Context(), again, 0))
	must(t, w.db.Close())

	w.open()
	if i := w.info(alive.AgentID); i.State != agent.Exited || i.LastError == nil || !strings.Contains(*i.LastError, "died") || i.Lifecycle.SelfExits != 0 {
		t.Errorf("the live one: %+v", i)
	}
	if i := w.info(again.ID); i.State != agent.Ripped {
		t.Errorf("the one being resurrected: %s", i.State)
	}
	for _, id := range []string{stopped.AgentID, young.ID} {
		if _, err := w.db.Any(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := os.Stat(filepath.Join(w.dir, "agents", id)); err == nil {
			t.Errorf("the directory of %s is left", id)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "agents", alive.AgentID)); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func (w *world) row(id string) store.Agent {
	w.t.Helper()
	r, err := w.db.Any(w.t.Context(), id)
	must(w.t, err)
	return r
}
