package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pi-mcp/agent"
	"pi-mcp/cage"
)

// A turn: active from the prompt to the settle, then the numbers and the text.
func TestTurn(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	if a.State != agent.Idle || a.PID == nil || a.LastAssistantText != nil || a.Name != "fake/plain" {
		t.Errorf("a new agent: %+v", a)
	}
	sent := w.send(a.AgentID, act(do("turn", "forty-two")))
	if sent.Delivery != "hot_prompt" || sent.Disposition != "started" || sent.SettleCount != 0 {
		t.Errorf("sent: %+v", sent)
	}
	i := w.settled(a.AgentID, 1)
	if i.LastAssistantText == nil || *i.LastAssistantText != "forty-two" || i.Messages.User != 1 || i.Messages.Assistant != 1 {
		t.Errorf("after the turn: %+v", i)
	}
}

// Messages to a running agent are queued, steering or not, and end in the same
// settle; queue_length follows pi's own queue.
func TestQueue(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	tmp := w.files.Paths(a.AgentID).Tmp
	w.send(a.AgentID, act(record("agent_start"), do("wait_file", "/tmp/go"), record("agent_settled", "aborted", false)))
	w.untilState(a.AgentID, agent.Active)
	later, err := w.sup.Send(t.Context(), w.who, a.AgentID, "later", agent.FollowUp, false)
	must(t, err)
	soon, err := w.sup.Send(t.Context(), w.who, a.AgentID, "soon", agent.Steer, false)
	must(t, err)
	if later.Delivery != "hot_follow_up" || soon.Delivery != "hot_steer" || later.Disposition != "queued" || later.State != agent.Active {
		t.Errorf("queued: %+v, %+v", later, soon)
	}
	w.until(a.AgentID, "the queue", func(i agent.Info) bool { return i.QueueLength == 2 })
	must(t, os.WriteFile(filepath.Join(tmp, "go"), nil, 0o600))
	w.until(a.AgentID, "an empty queue", func(i agent.Info) bool { return i.QueueLength == 0 && i.State == agent.Idle })
}

// An abort ends the run, keeps the process, and hands back what was queued.
func TestAbort(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	idle, err := w.sup.Abort(t.Context(), w.who, a.AgentID, true)
	must(t, err)
	if idle.Aborted || idle.State != agent.Idle {
		t.Errorf("abort of an idle agent: %+v", idle)
	}
	running := filepath.Join(w.files.Paths(a.AgentID).Tmp, "running")
	for n, clear := range []bool{true, false} {
		w.send(a.AgentID, act(record("agent_start"), do("touch", "/tmp/running"), do("wait_file", "/tmp/never")))
		waitFile(t, running)
		must(t, os.Remove(running))
		w.send(a.AgentID, "queued")
		res, err := w.sup.Abort(t.Context(), w.who, a.AgentID, clear)
		must(t, err)
		if !res.Aborted || res.State != agent.Idle || (len(res.Cleared) == 1) != clear {
			t.Errorf("clear %v: %+v", clear, res)
		}
		if i := w.info(a.AgentID); i.PID == nil || i.SettleCount != int64(n+1) {
			t.Errorf("after the abort: pid %v, %d settles", i.PID, i.SettleCount)
		}
	}
}

// A prompt that is aborted before it became a run leaves an idle agent.
func TestAbortBeforeTheRun(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	w.send(a.AgentID, act(do("wait_file", "/tmp/never"))) // no agent_start, so no agent_settled
	res, err := w.sup.Abort(t.Context(), w.who, a.AgentID, true)
	must(t, err)
	if !res.Aborted || res.State != agent.Idle {
		t.Errorf("abort: %+v", res)
	}
	if i := w.info(a.AgentID); i.State != agent.Idle || i.SettleCount != 0 {
		t.Errorf("it is %s with %d settles", i.State, i.SettleCount)
	}
}

// Rip keeps everything, a second one says so, resurrect continues the session.
func TestRipAndResurrect(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{Name: "mine"})
	w.send(a.AgentID, act(do("turn", "first")))
	w.settled(a.AgentID, 1)
	rip, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	if rip.State != agent.Ripped || !rip.Ripped || rip.AlreadyRipped || rip.Lifecycle.Rips != 1 || rip.PID != nil || rip.Lifecycle.RippedAt == nil {
		t.Errorf("rip: %+v", rip)
	}
	if rip.LastAssistantText == nil || *rip.LastAssistantText != "first" {
		t.Errorf("the text did not outlive the process: %v", rip.LastAssistantText)
	}
	again, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	if !again.AlreadyRipped || again.Lifecycle.Rips != 1 {
		t.Errorf("second rip: %+v", again)
	}
	_, err = w.sup.Send(t.Context(), w.who, a.AgentID, "hello", agent.FollowUp, false)
	if err == nil || !strings.Contains(err.Error(), "resurrect") {
		t.Errorf("message to a ripped agent: %v", err)
	}
	prompt := act(do("turn", "second"))
	back, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, &prompt)
	must(t, err)
	if !back.Resurrected || !back.PromptSent || *back.Delivery != "resurrect_prompt" || *back.Disposition != "started" || back.Lifecycle.Retries != 1 {
		t.Errorf("resurrect: %+v", back)
	}
	if i := w.settled(a.AgentID, 2); *i.LastAssistantText != "second" || i.Name != "mine" {
		t.Errorf("after the resurrection: %+v", i)
	}
	if _, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil); err == nil || !strings.Contains(err.Error(), "alive") {
		t.Errorf("resurrect of a live agent: %v", err)
	}
}

// send_message with resurrect brings a stopped agent back first.
func TestSendResurrects(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	sent, err := w.sup.Send(t.Context(), w.who, a.AgentID, act(do("turn", "back")), agent.FollowUp, true)
	must(t, err)
	if sent.Delivery != "resurrect_prompt" || sent.State != agent.Active {
		t.Errorf("sent: %+v", sent)
	}
	w.settled(a.AgentID, 1)
}

// A resurrection that fails leaves the agent as it was, and counts nothing.
func TestResurrectFails(t *testing.T) {
	w := newWorld(t)
	w.script("moody", map[string]any{})
	a := w.run(agent.RunRequest{Model: "moody"})
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID, false)
	must(t, err)
	w.script("moody", map[string]any{"start": []any{do("stderr", "not today\n"), do("exit", 3)}})
	before := w.info(a.AgentID)
	_, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	if err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("resurrect: %v", err)
	}
	after := w.info(a.AgentID)
	if after.State != before.State || after.Lifecycle != before.Lifecycle && after.Lifecycle.Retries != 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	w.noProcess()
	w.script("moody", map[string]any{})
	_, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err) // the control
}

// Whatever ends a start early leaves nothing behind; a rip keeps the row.
func TestStoppedDuringStart(t *testing.T) {
	for name, stop := range map[string]func(w *world, cancel func(), id string) error{
		"cancel": func(_ *world, cancel func(), _ string) error { cancel(); return nil },
		"remove": func(w *world, _ func(), id string) error {
			_, err := w.sup.Remove(w.t.Context(), w.who, id, false)
			return err
		},
		"rip": func(w *world, _ func(), id string) error {
			_, err := w.sup.Rip(w.t.Context(), w.who, id, false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.script("slow", map[string]any{"start": []any{do("hang", true)}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := w.sup.Run(ctx, w.who, agent.RunRequest{Model: "slow"})
				failed <- err
			}()
			id := ""
			eventually(t, func() bool {
				res, err := w.sup.List(t.Context(), w.who, agent.ListRequest{})
				must(t, err)
				if res.Count == 1 && len(w.processes()) > 0 {
					id = res.Agents[0].AgentID
				}
				return id != ""
			}, func() string { return "it never started" })
			if s := w.info(id).State; s != agent.Active {
				t.Errorf("while starting it is %s", s)
			}
			must(t, stop(w, cancel, id))
			if err := <-failed; err == nil {
				t.Error("the run succeeded")
			} else if name != "cancel" && !strings.Contains(err.Error(), "stopped during start") {
				t.Errorf("run: %v", err)
			}
			if name == "rip" {
				if i := w.info(id); i.State != agent.Ripped {
					t.Errorf("after the rip it is %s", i.State)
				}
				w.noProcess()
				return
			}
			w.empty()
		})
	}
}

// A pi that never answers is given up at the deadline.
func TestHandshakeDeadline(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.Handshake = 1 })
	_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{})
	if failed, ok := errors.AsType[*agent.StartError](err); !ok || !strings.Contains(failed.Reason, "--handshake") {
		t.Errorf("run: %v", err)
	}
	w.empty()
}

// A prompt that pi refuses takes the whole run back.
func TestRunWithRefusedPrompt(t *testing.T) {
	w := newWorld(t)
	w.script("refuses", map[string]any{"on": map[string]any{
		"prompt": []any{do("respond", do("success", false, "error", "No API key found"))},
	}})
	prompt := "hello"
	_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "refuses", Prompt: &prompt})
	if err == nil || !strings.Contains(err.Error(), "No API key found") {
		t.Errorf("run: %v", err)
	}
	w.empty()
	a := w.run(agent.RunRequest{Model: "refuses"})
	if _, err := w.sup.Send(t.Context(), w.who, a.AgentID, "hello", agent.FollowUp, false); err == nil {
		t.Error("the message was taken")
	}
	if i := w.info(a.AgentID); i.State != agent.Idle {
		t.Errorf("after a refused message it is %s", i.State)
	}
}

// A prompt that an extension handles starts no run.
func TestHandledPrompt(t *testing.T) {
	w := newWorld(t)
	w.script("handles", map[string]any{"on": map[string]any{
		"prompt": []any{do("respond", do("data", do("disposition", "handled")))},
	}})
	a := w.run(agent.RunRequest{Model: "handles"})
	sent := w.send(a.AgentID, "/mcp")
	if sent.Disposition != "handled" || sent.State != agent.Idle {
		t.Errorf("sent: %+v", sent)
	}
	if i := w.info(a.AgentID); i.State != agent.Idle || i.SettleCount != 0 {
		t.Errorf("it is %s with %d settles", i.State, i.SettleCount)
	}
}

// Sixteen starts at once: all answer, and none hears another's answers.
func TestF34ManyRuns(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			prompt := act(do("turn", fmt.Sprint("answer ", n)))
			res, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Prompt: &prompt})
			if err != nil {
				t.Error(err)
				return
			}
			if i := w.settled(res.AgentID, 1); *i.LastAssistantText != fmt.Sprint("answer ", n) {
				t.Errorf("agent %d says %q", n, *i.LastAssistantText)
			}
		})
	}
	wg.Wait()
}

// Limits on live agents hold for runs and resurrections, and a stopped agent
// makes room.
func TestAgentLimits(t *testing.T) {
	for _, name := range []string{"max-agents", "max-group-agents"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *agent.Config) {
				if name == "max-agents" {
					c.Limits.Agents = 1
				} else {
					c.Limits.GroupAgents = 1
				}
			})
			a := w.run(agent.RunRequest{})
			_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{})
			if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.Name != name || limit.Value != 1 {
				t.Errorf("second run: %v", err)
			}
			_, err = w.sup.Rip(t.Context(), w.who, a.AgentID, false)
			must(t, err)
			b := w.run(agent.RunRequest{})
			if _, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil); err == nil {
				t.Error("the limit let a resurrection in")
			}
			_, err = w.sup.Remove(t.Context(), w.who, b.AgentID, false)
			must(t, err)
			_, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
			must(t, err)
		})
	}
}

// Another group's agent does not exist, for any operation.
func TestGroups(t *testing.T) {
	w := newWorld(t)
	mine := w.run(agent.RunRequest{AccessToken: "a token of mine"})
	other := w.who
	group, err := w.sup.GroupOf(t.Context(), "a token of mine")
	must(t, err)
	for _, who := range []agent.Caller{other, {Group: group}} {
		want := who.Group == group
		_, err := w.sup.Info(t.Context(), who, mine.AgentID)
		if errors.Is(err, agent.ErrNotFound) == want {
			t.Errorf("group %s, info: %v", who.Group, err)
		}
		res, err := w.sup.List(t.Context(), who, agent.ListRequest{})
		must(t, err)
		if (res.Count == 1) != want {
			t.Errorf("group %s lists %d", who.Group, res.Count)
		}
		_, err = w.sup.Send(t.Context(), who, mine.AgentID, "x", agent.FollowUp, false)
		if (err == nil) != want {
			t.Errorf("group %s, send: %v", who.Group, err)
		}
		_, err = w.sup.Rip(t.Context(), who, mine.AgentID, false)
		if (err == nil) != want {
			t.Errorf("group %s, rip: %v", who.Group, err)
		}
		_, err = w.sup.Remove(t.Context(), who, mine.AgentID, false)
		if (err == nil) != want {
			t.Errorf("group %s, remove: %v", who.Group, err)
		}
	}
}

// A context_size that pi does not apply fails the run, instead of being lost.
func TestContextSize(t *testing.T) {
	w := newWorld(t)
	size := int64(50_000)
	if a := w.run(agent.RunRequest{ContextSize: &size}); *a.ContextSize != size {
		t.Errorf("context size %d", *a.ContextSize)
	}
	w.script("other", map[string]any{"on": map[string]any{"get_state": []any{
		do("respond", do("data", do("model", do("id", "another", "contextWindow", 128_000)))),
	}}})
	w.run(agent.RunRequest{Model: "other"}) // without it, pi may take what it likes
	_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "other", ContextSize: &size})
	if e, ok := errors.AsType[*agent.ArgError](err); !ok || e.Arg != "context_size" || !strings.Contains(e.Reason, "another") {
		t.Errorf("run: %v", err)
	}
}

// Bad requests are refused by the name of the argument, and leave nothing.
func TestBadRuns(t *testing.T) {
	w := newWorld(t)
	project := t.TempDir()
	file := filepath.Join(project, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	small, empty, missing := int64(19_999), " ", filepath.Join(project, "missing")
	for _, bad := range []struct {
		arg string
		req agent.RunRequest
	}{
		{"write", agent.RunRequest{Grants: cage.Grants{Write: []string{"relative"}}}},
		{"write", agent.RunRequest{Grants: cage.Grants{Write: []string{missing}}}},
		{"write", agent.RunRequest{Grants: cage.Grants{Write: []string{project + "\x00"}}}},
		{"write", agent.RunRequest{Grants: cage.Grants{Write: []string{"/etc"}}}},
		{"write", agent.RunRequest{Grants: cage.Grants{Write: []string{filepath.Join(w.dir, "state")}}}},
		{"read", agent.RunRequest{Grants: cage.Grants{Read: []string{"/"}}}},
		{"read", agent.RunRequest{Grants: cage.Grants{Read: []string{filepath.Join(w.dir, "agents")}}}},
		{"denied", agent.RunRequest{Grants: cage.Grants{Write: []string{project}, Denied: []string{missing}}}},
		{"context_size", agent.RunRequest{ContextSize: &small}},
		{"thinking", agent.RunRequest{Thinking: "very"}},
		{"prompt", agent.RunRequest{Prompt: &empty}},
		{"cwd", agent.RunRequest{Cwd: "/etc"}},
		{"cwd", agent.RunRequest{Cwd: project}},
		{"cwd", agent.RunRequest{Cwd: "relative"}},
		{"cwd", agent.RunRequest{Cwd: file, Grants: cage.Grants{Write: []string{project}}}},
		{"name", agent.RunRequest{Name: "a\nb"}},
		{"provider", agent.RunRequest{Provider: "--mode"}},
		{"model", agent.RunRequest{Model: strings.Repeat("m", 201)}},
		{"access_token", agent.RunRequest{AccessToken: "short"}},
		{"callback_agent_id", agent.RunRequest{Callback: "nobody"}},
		{"callback_agent_id", agent.RunRequest{Callback: "01a1964b-2c01-70a5-b520-78f933cdafad"}},
	} {
		_, err := w.sup.Run(t.Context(), w.who, bad.req)
		if e, ok := errors.AsType[*agent.ArgError](err); !ok || e.Arg != bad.arg {
			t.Errorf("%s: %v", bad.arg, err)
		}
	}
	w.empty()
	res, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Cwd: project, Grants: cage.Grants{Write: []string{project}}})
	must(t, err) // the control
	if res.Cwd != project {
		t.Errorf("cwd %q", res.Cwd)
	}
}

// Ids are checked before they are used.
func TestBadIDs(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"", "../../etc", "01A1964B-2C01-70A5-B520-78F933CDAFAD", "{01a1964b-2c01-70a5-b520-78f933cdafad}", "x\x00"} {
		if _, err := w.sup.Info(t.Context(), w.who, id); err == nil || errors.Is(err, agent.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := w.sup.Info(t.Context(), w.who, "01a1964b-2c01-70a5-b520-78f933cdafad"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
}
