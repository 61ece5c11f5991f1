package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"pi-mcp/agent/pirpc"
)

// answerWait bounds how long a caller waits for pi's answer to a command.
const answerWait = 30 * time.Second

// A Mode says when a message reaches an agent that is running.
type Mode string

const (
	FollowUp Mode = "follow_up" // when the run has come to its end
	Steer    Mode = "steer"     // before the next request to the model
)

// Ways in which a message was delivered.
const (
	hotPrompt       = "hot_prompt"
	hotFollowUp     = "hot_follow_up"
	hotSteer        = "hot_steer"
	resurrectPrompt = "resurrect_prompt"
)

// A SendResult says what became of a message.
type SendResult struct {
	AgentID     string `json:"agent_id"`
	Delivery    string `json:"delivery" jsonschema:"hot_prompt, hot_follow_up, hot_steer or resurrect_prompt"`
	Disposition string `json:"disposition" jsonschema:"started, queued or handled, as pi answered"`
	State       State  `json:"state"`
	SettleCount int64  `json:"settle_count" jsonschema:"runs that had ended before this message"`
}

// Send gives a message to an agent: an idle one starts a run, a running one has
// it queued. Pi decides which, so there is no moment in between. With resurrect,
// a stopped agent is started first.
func (s *Supervisor) Send(ctx context.Context, who Caller, id, message string, mode Mode, resurrect bool) (SendResult, error) {
	if err := s.checkMessage("message", message); err != nil {
		return SendResult{}, err
	}
	if a := s.find(id); a != nil && a.group == who.Group && who.acts(a.ancestors) && !resurrect {
		s.asked(who, id)
		return a.send(ctx, message, mode) // the usual case needs no look at the row
	}
	row, a, err := s.owned(ctx, who, id)
	if err != nil {
		return SendResult{}, err
	}
	delivery := ""
	if a == nil {
		if !resurrect {
			return SendResult{}, &StateError{ID: id, State: State(row.State), Remedy: "it has no process; use resurrect, or pass resurrect=true"}
		}
		if a, err = s.revive(ctx, who, id); err != nil {
			return SendResult{}, err
		}
		delivery = resurrectPrompt
	}
	s.asked(who, id)
	sent, err := a.send(ctx, message, mode)
	def(&delivery, sent.Delivery)
	sent.Delivery = delivery
	return sent, err
}

// A sent is a SendResult or why there is none.
type sent struct {
	SendResult
	err error
}

// send gives a message to a live agent and waits for pi's answer. A caller who
// goes away does not take the message back.
func (a *liveAgent) send(ctx context.Context, message string, mode Mode) (SendResult, error) {
	reply := make(chan sent, 1)
	a.tell(func() {
		a.prompt(message, mode, func(r SendResult, err error) { reply <- sent{r, err} })
	})
	r, err := await(ctx, a, reply)
	if err != nil {
		return SendResult{}, err
	}
	return r.SendResult, r.err
}

// await waits for a reply from a's loop, for the end of the agent, or for ctx.
func await[T any](ctx context.Context, a *liveAgent, reply <-chan T) (T, error) {
	late := time.NewTimer(answerWait)
	defer late.Stop()
	var zero T
	select {
	case r := <-reply:
		return r, nil
	case <-ctx.Done():
		return zero, ctx.Err()
	case <-late.C:
		return zero, &PiError{Reason: "pi has not answered for " + answerWait.String() + "; what it was asked may still take effect: see get_info, or rip it"}
	case <-a.gone:
	}
	select {
	case r := <-reply: // given before the end
		return r, nil
	default:
		return zero, &StateError{ID: a.id, State: Exited, Remedy: "it ended meanwhile; see get_info, then use resurrect"}
	}
}

// prompt writes one message to pi. It runs in loop; reply is called once, in
// loop, unless the agent ends first.
func (a *liveAgent) prompt(message string, mode Mode, reply func(SendResult, error)) {
	switch a.state {
	case Starting:
		a.waiting = append(a.waiting, func(err error) {
			if err != nil {
				reply(SendResult{}, err)
				return
			}
			a.prompt(message, mode, reply)
		})
		return
	case Idle, Active:
	default:
		reply(SendResult{}, a.refuse())
		return
	}
	before, seen := a.row.SettleCount+int64(a.turn.settling), a.turn.runs
	behaviour := map[Mode]string{FollowUp: "followUp", Steer: "steer"}[mode]
	a.turn.unanswered++
	err := a.pi.Send("prompt", map[string]any{"message": message, "streamingBehavior": behaviour}, func(r pirpc.Response) {
		a.tell(func() {
			res, err := a.answered(r, mode, seen)
			res.SettleCount = before
			reply(res, err)
		})
	})
	if err != nil {
		a.turn.unanswered--
		reply(SendResult{}, sendError(err))
		return
	}
	a.move(Prompt) // while pi reads: its answer waits in the inbox
}

// answered takes pi's answer to a prompt. seen are the runs that had been read of
// when it was written: one that has begun and ended since is the prompt's own.
func (a *liveAgent) answered(r pirpc.Response, mode Mode, seen runs) (SendResult, error) {
	if a.turn.unanswered > 0 { // else the process is gone and nothing counts any more
		a.turn.unanswered--
	}
	if a.turn.unanswered == 0 {
		defer runAll(&a.turn.answered)
	}
	if err := answerError("prompt", r); err != nil {
		a.moveIfLive(Refused)
		return SendResult{}, sendError(err)
	}
	var d struct{ Disposition string }
	_ = json.Unmarshal(r.Data, &d) // an empty disposition is a run of an older pi
	res := SendResult{AgentID: a.id, Delivery: hotPrompt, Disposition: d.Disposition}
	switch d.Disposition {
	case "handled":
		a.moveIfLive(Handled)
	case "queued":
		a.turn.accepted++
		res.Delivery = map[Mode]string{FollowUp: hotFollowUp, Steer: hotSteer}[mode]
	default:
		res.Disposition = "started"
		if now := a.turn.runs; !a.turn.running && now.begun > seen.begun && now.settled > seen.settled {
			a.moveIfLive(Handled)
		} else {
			a.turn.accepted++
		}
	}
	res.State = a.state.Public()
	return res, nil
}

// moveIfLive moves an agent that is still running; a stop or an exit that came
// first has already decided.
func (a *liveAgent) moveIfLive(e Event) {
	if a.state == Active {
		a.move(e)
		a.reclaim()
	}
}

// sendError is what went wrong between here and pi, in words for a caller.
func sendError(err error) error {
	switch {
	case errors.Is(err, pirpc.ErrTooLong):
		return &PiError{Command: "the command", Reason: "its answer is longer than what is kept; see get_info for what came of it"}
	case errors.Is(err, pirpc.ErrBusy):
		return &PiError{Command: "the message", Reason: "it has not read what it was sent before; wait, or rip it"}
	case errors.Is(err, pirpc.ErrClosed):
		return &PiError{Command: "the message", Reason: "it ended; see get_info for why, then use resurrect"}
	}
	return err
}

// aborted takes pi's answer to an abort: its session is idle. A prompt that had
// not become a run by then will not, and no settle follows.
func (a *liveAgent) aborted(r pirpc.Response) {
	if r.Err != nil || !r.Success || a.turn.running || a.turn.settling > 0 {
		return
	}
	a.turn.accepted = 0
	a.moveIfLive(Handled)
}

// An AbortResult says what an abort ended.
type AbortResult struct {
	AgentID string   `json:"agent_id"`
	Aborted bool     `json:"aborted" jsonschema:"false when no run was on"`
	State   State    `json:"state"`
	Cleared []string `json:"cleared" jsonschema:"messages taken out of the queue"`

	// ClearedTruncated says that Cleared is not all of them, or not whole.
	ClearedTruncated bool `json:"cleared_truncated" jsonschema:"messages in cleared are missing or cut, because they are too long for a result"`
}

// Abort ends the run of an agent and keeps its process. With clear, messages that
// wait in pi's queue are taken out and returned; without, they join the next run.
func (s *Supervisor) Abort(ctx context.Context, who Caller, id string, clear bool) (AbortResult, error) {
	row, a, err := s.owned(ctx, who, id)
	if err != nil {
		return AbortResult{}, err
	}
	if a == nil {
		return AbortResult{}, &StateError{ID: id, State: State(row.State), Remedy: "it has no process, so there is no run to end"}
	}
	type outcome struct {
		AbortResult
		err error
	}
	reply := make(chan outcome, 1)
	a.tell(func() {
		a.abort(ctx, who, clear, func(r AbortResult, err error) { reply <- outcome{r, err} })
	})
	r, err := await(ctx, a, reply)
	if err != nil {
		return AbortResult{}, err
	}
	return r.AbortResult, r.err
}

// abortWait is how long an abort waits for pi to answer the prompts in front of
// it. Pi may take a clear_queue before them; but it may also be busy with one of
// them, and that is what is to be ended.
const abortWait = time.Second

// abort runs in loop; reply is called once, in loop, unless the agent or ctx ends
// first.
func (a *liveAgent) abort(ctx context.Context, who Caller, clear bool, reply func(AbortResult, error)) {
	if a.state != Active || a.turn.unanswered == 0 {
		a.abortNow(who, clear, reply)
		return
	}
	waited := false
	after := func() {
		if !waited && ctx.Err() == nil {
			a.abortNow(who, clear, reply)
		}
		waited = true
	}
	a.turn.answered = append(a.turn.answered, after)
	time.AfterFunc(abortWait, func() { a.tell(after) })
}

func (a *liveAgent) abortNow(who Caller, clear bool, reply func(AbortResult, error)) {
	res := AbortResult{AgentID: a.id, Cleared: []string{}}
	switch a.state {
	case Idle:
		res.State = Idle
		reply(res, nil)
		return
	case Active:
	default:
		reply(res, a.refuse())
		return
	}
	if clear {
		err := a.pi.Send("clear_queue", nil, func(r pirpc.Response) {
			var q struct{ Steering, FollowUp []string }
			if errors.Is(r.Err, pirpc.ErrTooLong) {
				a.tell(func() { res.ClearedTruncated = true })
			}
			if r.Success && json.Unmarshal(r.Data, &q) == nil {
				a.tell(func() {
					res.Cleared = a.keep(append(append(res.Cleared, q.Steering...), q.FollowUp...), "an abort cleared the queue that it was in")
				})
			}
		})
		if err != nil {
			reply(res, sendError(err))
			return
		}
	}
	a.turn.aborter = who.Agent
	err := a.pi.Send("abort", nil, func(r pirpc.Response) {
		a.tell(func() {
			a.aborted(r)
			a.whenSettled(func() {
				res.Aborted, res.State = r.Success, a.state.Public()
				reply(res, sendError(answerError("abort", r)))
			})
		})
	})
	if err != nil {
		reply(res, sendError(err))
	}
}
