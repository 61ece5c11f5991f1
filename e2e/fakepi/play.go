package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// play performs actions in order and returns false if an abort came between. A
// nil command means that nothing waits for an answer.
func (p *pi) play(ctx context.Context, actions []action, cmd *command) bool {
	for _, a := range actions {
		if ctx.Err() != nil {
			return false
		}
		p.step(ctx, a, cmd)
	}
	return ctx.Err() == nil
}

// step performs one action. Those that only speak are here.
func (p *pi) step(ctx context.Context, a action, cmd *command) {
	switch {
	case a.Write != nil:
		p.out.raw([]byte(*a.Write + "\n"))
	case a.Record != nil:
		p.out.raw(append(encode(a.Record), '\n'))
	case a.Bytes != nil && a.Split:
		p.out.split(a.Bytes)
	case a.Bytes != nil:
		p.out.raw(a.Bytes)
	case a.Respond != nil:
		p.respondTo(cmd, *a.Respond)
	case a.Default && cmd != nil:
		p.playDefault(ctx, cmd, func(write func()) { write() })
	case a.Turn != nil:
		p.turns(ctx, cmd.text(), a, func(write func()) { write() })
	case a.Ask != nil:
		p.ask(ctx, *a.Ask)
	case a.Stderr != "":
		os.Stderr.WriteString(strings.Repeat(a.Stderr, max(a.Repeat, 1)))
	case a.Flood > 0:
		p.flood(ctx, a.Flood)
	case a.Line > 0:
		p.line(a, cmd)
	default:
		p.act(ctx, a)
	}
}

// act performs what reaches beyond pi's output.
func (p *pi) act(ctx context.Context, a action) {
	switch {
	case a.DelayMS > 0:
		select {
		case <-time.After(time.Duration(a.DelayMS) * time.Millisecond):
		case <-ctx.Done():
		}
	case a.WaitFile != "":
		waitFile(ctx, a.WaitFile)
	case a.Touch != "":
		writeFile(a.Touch, "")
	case a.File != "":
		writeFile(a.File, a.Content)
	case len(a.Spawn) > 0:
		spawn(a.Spawn)
	case a.Signal != "":
		syscall.Kill(os.Getpid(), unix.SignalNum("SIG"+a.Signal))
	case a.Exit != nil:
		os.Exit(*a.Exit)
	case a.Hang:
		p.hang()
	case a.IgnoreEOF:
		p.mu.Lock()
		p.ignoreEOF = true
		p.mu.Unlock()
	}
}

// respondTo answers as the script says. A prompt that succeeds has started,
// unless the script knows better.
func (p *pi) respondTo(cmd *command, more members) {
	decided := slices.ContainsFunc(more, func(m field) bool { return m.name == "success" || m.name == "data" })
	if cmd != nil && cmd.Type == "prompt" && !decided {
		more = append(members{{"data", disposition("started")}}, more...)
	}
	p.respond(cmd, more)
}

// playDefault is the built-in answer in the middle of a script. A prompt is
// played where it stands, because the script has made pi busy already.
func (p *pi) playDefault(ctx context.Context, cmd *command, settle func(write func())) {
	if cmd.Type != "prompt" {
		p.byDefault(cmd)
		return
	}
	p.respondTo(cmd, nil)
	answer := "You said: " + cmd.text()
	p.turns(ctx, cmd.text(), action{Turn: &answer}, settle)
}

// hang stops everything but the process: the output is never free again, and
// read stops at the next line.
func (p *pi) hang() {
	p.hung.Store(true)
	p.out.mu.Lock()
	select {}
}

// spawn starts a program that outlives this one if it is let.
func spawn(argv []string) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fail("cannot spawn: %v", err)
	}
	go cmd.Wait() // leaves no zombie
}

func writeFile(name, content string) {
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		fail("%v", err)
	}
}

// waitFile waits for a file to appear, and returns false if an abort came first.
func waitFile(ctx context.Context, name string) bool {
	for ctx.Err() == nil {
		if _, err := os.Stat(name); err == nil {
			return true
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return false
}
