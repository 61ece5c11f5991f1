package main

import (
	"context"
	"strings"
)

// A talk is one run of turns in progress.
type talk struct {
	p    *pi
	ctx  context.Context // ends with an abort
	said []message       // since agent_start
}

// turns plays a whole run for one message, and for the plain ones that are
// queued meanwhile, as the real pi does. The end is written through settle.
func (p *pi) turns(ctx context.Context, text string, a action, settle func(write func())) {
	t := &talk{p: p, ctx: ctx}
	t.begin(text)
	answer, hold := *a.Turn, a.Hold
	for t.answers(answer, hold) {
		text, ok := t.queued()
		if !ok {
			break
		}
		t.says(userMessage(text))
		answer, hold = "You said: "+text, ""
	}
	if p.isQuiet() {
		return
	}
	settle(func() {
		p.out.record(field{"type", "agent_end"}, field{"messages", t.said}, field{"willRetry", false})
		p.out.record(field{"type", "agent_settled"}, field{"aborted", ctx.Err() != nil})
	})
}

// begin plays everything up to the first answer. A message that was steered
// into an idle pi, or survived an abort, joins here.
func (t *talk) begin(text string) {
	t.p.out.record(field{"type", "agent_start"})
	t.p.out.record(field{"type", "turn_start"})
	if t.p.session.fresh() {
		t.says(systemMessage())
	}
	t.says(userMessage(text))

	t.p.mu.Lock()
	j, ok := take(t.ctx, &t.p.steering, false)
	if ok {
		t.p.queueChangedLocked()
	}
	t.p.mu.Unlock()
	if ok {
		t.says(userMessage(j.text))
	}
}

// queued begins the next turn of the run, if there is to be one.
func (t *talk) queued() (text string, ok bool) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	j, ok := t.p.nextLocked(t.ctx, false)
	if ok {
		t.p.out.record(field{"type", "turn_start"})
		t.p.queueChangedLocked()
	}
	return j.text, ok
}

// says plays a message that is there as a whole.
func (t *talk) says(m message) {
	t.p.out.record(field{"type", "message_start"}, field{"message", m})
	t.keep(m)
}

// keep plays the end of a message. Like the real one it is in the session by
// the time it is on the output.
func (t *talk) keep(m message) {
	t.said = append(t.said, m)
	t.p.session.add(m)
	t.record(field{"type", "message_end"}, field{"message", m})
}

// answers plays the model's part of a turn, and returns false if it was
// aborted.
func (t *talk) answers(text, hold string) bool {
	t.p.out.record(field{"type", "message_start"}, field{"message", t.p.assistantMessage("", "pending")})
	t.update(fields{{"type", "text_start"}, {"contentIndex", 0}})
	said, stop := t.words(text, hold), "stop"
	if t.ctx.Err() != nil {
		stop = "aborted"
	}
	t.update(fields{{"type", "text_end"}, {"contentIndex", 0}, {"content", said}})
	m := t.p.assistantMessage(said, stop)
	t.keep(m)
	t.record(field{"type", "turn_end"}, field{"message", m}, field{"toolResults", []message{}})
	return stop == "stop"
}

// words plays the text word by word and returns what was said of it before an
// abort. If there is something to hold for, then after the first word.
func (t *talk) words(text, hold string) (said string) {
	for _, word := range strings.SplitAfter(text, " ") {
		if t.ctx.Err() != nil {
			break
		}
		said += word
		t.update(fields{{"type", "text_delta"}, {"contentIndex", 0}, {"delta", word}})
		if hold != "" {
			waitFile(t.ctx, hold)
			hold = ""
		}
	}
	return said
}

func (t *talk) update(event fields) {
	t.record(field{"type", "message_update"}, field{"usage", usage("pending")}, field{"assistantMessageEvent", event})
}

// record writes, unless pi is on its way out.
func (t *talk) record(members ...field) {
	if !t.p.isQuiet() {
		t.p.out.record(members...)
	}
}

func (p *pi) isQuiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quiet
}
