package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// pi is the process between its two pipes.
type pi struct {
	opts    options
	script  script
	session *session
	out     *wire
	hung    atomic.Bool // nothing is read any more

	mu        sync.Mutex // protects the fields below
	run       *run       // nil when idle
	quiet     bool       // pi is on its way out and says nothing more
	ignoreEOF bool
	steering  []job
	followUp  []job
	asked     map[string]chan struct{} // dialogs without an answer, by id
}

// A command is one line of pi's input.
type command struct {
	ID       json.RawMessage
	Type     string
	Message  *string
	Behavior string `json:"streamingBehavior"`

	answered bool // a script's second respond does nothing
}

// id is repeated in the answer whatever it is.
func (c *command) id() any {
	if c.ID == nil {
		return nil
	}
	return c.ID
}

// text is the message, or nothing.
func (c *command) text() string {
	if c == nil || c.Message == nil {
		return ""
	}
	return *c.Message
}

// read handles commands until the input ends, and then ends pi.
func (p *pi) read(in io.Reader) {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if p.hung.Load() {
			select {}
		}
		if err != nil {
			break
		}
		p.handle(line)
	}
	p.play(context.Background(), p.script.EOF, nil)
	p.leave()
}

// leave stops a turn as pi does when it is told to go: the session records it,
// the output does not.
func (p *pi) leave() {
	p.mu.Lock()
	p.quiet = true
	ignore := p.ignoreEOF
	p.mu.Unlock()
	if ignore {
		select {}
	}
	p.stopRun()
	os.Exit(0)
}

// handle deals with one line, by the script if it has something to say.
func (p *pi) handle(line []byte) {
	var cmd command
	if err := json.Unmarshal(line, &cmd); err != nil {
		p.out.record(field{"type", "response"}, field{"command", "parse"}, field{"success", false},
			field{"error", "Failed to parse command: " + err.Error()})
		return
	}
	if cmd.Type == "extension_ui_response" {
		defer p.dialogAnswered(cmd)
	}
	actions, scripted := p.script.On[cmd.Type]
	switch {
	case scripted && cmd.Type == "prompt":
		p.playPrompt(actions, &cmd)
	case scripted:
		p.play(context.Background(), actions, &cmd)
	default:
		p.byDefault(&cmd)
	}
}

// byDefault does what the real pi does.
func (p *pi) byDefault(cmd *command) {
	switch cmd.Type {
	case "prompt":
		p.prompt(cmd)
	case "steer", "follow_up":
		p.enqueue(cmd)
	case "abort":
		p.abort()
		p.succeed(cmd, nil)
	case "clear_queue":
		p.clearQueue(cmd)
	case "get_state":
		p.succeed(cmd, p.state())
	case "get_session_stats":
		p.succeed(cmd, p.session.stats())
	case "get_last_assistant_text":
		p.succeed(cmd, p.session.last())
	case "extension_ui_response":
	default:
		if strings.HasPrefix(cmd.Type, "set_") {
			p.succeed(cmd, nil)
			return
		}
		p.refuse(cmd, "Unknown command: "+cmd.Type)
	}
}

// succeed answers a command, with data unless that is nil.
func (p *pi) succeed(cmd *command, data any) {
	p.respond(cmd, members{{"data", data}})
}

func (p *pi) refuse(cmd *command, reason string) {
	p.respond(cmd, members{{"success", false}, {"error", reason}})
}

// respond answers a command once. The members given replace or follow those of
// a plain success.
func (p *pi) respond(cmd *command, more members) {
	if cmd == nil || cmd.answered {
		return
	}
	cmd.answered = true
	answer := fields{{"id", cmd.id()}, {"type", "response"}, {"command", cmd.Type}, {"success", true}}
	for _, m := range more {
		answer.set(m)
	}
	p.out.record(answer...)
}

// set replaces the member with the same name, or appends.
func (f *fields) set(m field) {
	for i := range *f {
		if (*f)[i].name == m.name {
			(*f)[i] = m
			return
		}
	}
	*f = append(*f, m)
}
