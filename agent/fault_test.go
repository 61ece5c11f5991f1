package agent_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
)

// A record with a raw line separator in a string, in pieces of one byte, is one
// record, and the state follows.
func TestF01SplitRecord(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	text := base64.StdEncoding.EncodeToString([]byte(`{"type":"agent_start","note":"a` + "\u2028" + `b"}` + "\n"))
	w.send(a.AgentID, act(do("bytes", text, "split", true), do("wait_file", "/tmp/go")))
	w.until(a.AgentID, "the run", func(i agent.Info) bool { return i.State == agent.Active })
	log, err := w.sup.Grep(t.Context(), w.who, a.AgentID, artifacts.Stdout, []string{"-c", "agent_start"})
	must(t, err)
	if got := strings.TrimSpace(log.Stdout); got != "1" {
		t.Errorf("the log has %s records", got)
	}
}

// A retry is part of the run: active throughout, one settle.
func TestF03Retry(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	tmp := w.files.Paths(a.AgentID).Tmp
	failed := do("role", "assistant", "content", []any{}, "stopReason", "error", "errorMessage", "529 overloaded")
	w.send(a.AgentID, act(
		record("agent_start"), record("message_end", "message", failed),
		record("agent_end", "messages", []any{}, "willRetry", true),
		record("auto_retry_start", "attempt", 1, "maxAttempts", 3, "delayMs", 3000),
		do("touch", "/tmp/waiting"), do("wait_file", "/tmp/again"),
		record("agent_start"), record("message_end", "message", do("role", "assistant", "content", []any{}, "stopReason", "stop")),
		record("agent_end", "messages", []any{}, "willRetry", false), record("agent_settled", "aborted", false),
	))
	waitFile(t, filepath.Join(tmp, "waiting"))
	if i := w.info(a.AgentID); i.State != agent.Active || i.SettleCount != 0 {
		t.Errorf("during the retry it is %s with %d settles", i.State, i.SettleCount)
	}
	must(t, os.WriteFile(filepath.Join(tmp, "again"), nil, 0o600))
	if i := w.settled(a.AgentID, 1); i.SettleCount != 1 || i.LastError != nil {
		t.Errorf("%d settles, last error %v", i.SettleCount, i.LastError)
	}
}

// A run that goes on after it settled ends idle, and no settle is lost.
func TestF04SettleThenMore(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(
		record("agent_start"), record("agent_end", "messages", []any{}, "willRetry", false),
		record("compaction_end", "reason", "overflow", "willRetry", true), record("agent_settled", "aborted", false),
		record("agent_start"), record("agent_end", "messages", []any{}, "willRetry", false), record("agent_settled", "aborted", false),
	))
	if i := w.settled(a.AgentID, 2); i.SettleCount != 2 {
		t.Errorf("%d settles, not 2", i.SettleCount)
	}
}

// Dialogs do not block: each is answered as cancelled and shown.
func TestF06Dialogs(t *testing.T) {
	w := newWorld(t)
	w.script("asks", map[string]any{"on": map[string]any{
		"extension_ui_response": []any{do("touch", "/tmp/answered")},
	}})
	a := w.run(agent.RunRequest{Model: "asks"})
	for n, method := range []string{"select", "confirm", "input", "editor"} {
		answered := filepath.Join(w.files.Paths(a.AgentID).Tmp, "answered")
		w.send(a.AgentID, act(
			record("agent_start"), record("extension_ui_request", "id", method, "method", method, "title", "May I?"),
			do("wait_file", "/tmp/answered"), record("agent_settled", "aborted", false),
		))
		i := w.settled(a.AgentID, int64(n+1))
		if i.Dialogs.Cancelled != int64(n+1) || i.Dialogs.Last == nil || *i.Dialogs.Last != method+": May I?" {
			t.Errorf("%s: dialogs %+v", method, i.Dialogs)
		}
		must(t, os.Remove(answered))
	}
}

// Stdin stays open for pi's whole life; its end is a stop and nothing else.
func TestF07StdinStaysOpen(t *testing.T) {
	w := newWorld(t)
	w.script("eof", map[string]any{"eof": []any{do("file", "/tmp/eof", "content", "x"), do("exit", 0)}})
	a := w.run(agent.RunRequest{Model: "eof"})
	eof := filepath.Join(w.files.Paths(a.AgentID).Tmp, "eof")
	w.send(a.AgentID, "hello")
	w.settled(a.AgentID, 1)
	if _, err := os.Stat(eof); err == nil {
		t.Error("pi saw the end of its input while nobody stopped it")
	}
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	if _, err := os.Stat(eof); err != nil {
		t.Errorf("the stop did not end pi's input: %v", err)
	}
}

// A pi that ends before it answers is a failed run that leaves nothing.
func TestF08ExitBeforeHandshake(t *testing.T) {
	w := newWorld(t)
	w.script("dies", map[string]any{"start": []any{do("stderr", "no such thing\n"), do("exit", 0)}})
	_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "dies"})
	if failed, ok := errors.AsType[*agent.StartError](err); !ok || !strings.Contains(failed.Stderr, "no such thing") {
		t.Errorf("run: %v", err)
	}
	w.empty()
	w.run(agent.RunRequest{}) // the control: a pi that answers
}

// Much stderr before the first answer neither blocks pi nor gets lost.
func TestF09StderrFirst(t *testing.T) {
	w := newWorld(t)
	line := strings.Repeat("x", 1023) + "\n"
	w.script("loud", map[string]any{"start": []any{do("stderr", line, "repeat", 256)}})
	a := w.run(agent.RunRequest{Model: "loud"})
	w.until(a.AgentID, "all of stderr", func(i agent.Info) bool { return i.Logs.StderrBytes == 256<<10 })
}

// What an agent leaves running in the background ends with it.
func TestF11NoOrphans(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	sleep := []string{"/usr/bin/setsid", "/usr/bin/sleep", "1000"}
	w.send(a.AgentID, act(do("spawn", sleep), do("spawn", sleep), do("turn", "left two behind")))
	w.settled(a.AgentID, 1)
	eventually(t, func() bool { return count(w.processes(), "sleep") == 2 }, func() string { return "the control: no sleep runs" })
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	if left := w.processes(); len(left) > 0 {
		t.Errorf("after the rip: %v", left)
	}
}

// A pi that is killed in the middle of a turn is exited at once, and everything
// that can be done with an exited agent works.
func TestF15KilledInTurn(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(record("agent_start"), do("stderr", "last words\n"), do("signal", "KILL")))
	i := w.untilState(a.AgentID, agent.Exited)
	if i.Lifecycle.SelfExits != 1 || i.PID != nil || i.ExitCode == nil || *i.ExitCode != 137 {
		t.Errorf("self exits %d, pid %v, exit code %v", i.Lifecycle.SelfExits, i.PID, i.ExitCode)
	}
	if i.LastError == nil || !strings.Contains(*i.LastError, "last words") {
		t.Errorf("last error %v", i.LastError)
	}
	rip, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	if !rip.Ripped || rip.AlreadyRipped || rip.Lifecycle.Rips != 0 || rip.State != agent.Exited {
		t.Errorf("rip of an exited agent: %+v", rip)
	}
	back, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err)
	if back.State != agent.Idle || back.Lifecycle.Retries != 1 || back.LastError != nil {
		t.Errorf("resurrected: %+v", back.Info)
	}
	_, err = w.sup.Remove(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	w.empty()
}

func count(all []string, part string) (n int) {
	for _, s := range all {
		if strings.HasPrefix(s, "/usr/bin/"+part) || strings.HasPrefix(s, part) {
			n++
		}
	}
	return n
}

func waitFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, func() string { return path + " never came" })
}
