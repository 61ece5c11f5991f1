package main

import (
	"context"
	"strings"
)

// A run is what makes pi busy: the job that was prompted, and those that are
// queued behind it.
type run struct {
	p      *pi
	ctx    context.Context // ends with an abort
	cancel context.CancelFunc
	done   chan struct{} // closed once it writes nothing more
}

// A job is what one message asks for.
type job struct {
	text    string
	cmd     *command
	actions []action // none: the default turn
}

// newJob reads the message of a command.
func newJob(cmd *command) (job, error) {
	if cmd.Message == nil {
		return job{}, wordsOfPi("Cannot read properties of undefined (reading 'startsWith')")
	}
	actions, err := inMessage(*cmd.Message)
	return job{*cmd.Message, cmd, actions}, err
}

// prompt starts a run, or queues behind the one that is on.
func (p *pi) prompt(cmd *command) {
	j, err := newJob(cmd)
	if err != nil {
		p.refuse(cmd, err.Error())
		return
	}
	if j.text == "/mcp" || strings.HasPrefix(j.text, "/mcp ") {
		p.succeed(cmd, disposition("handled"))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		p.enqueueLocked(j)
		return
	}
	if len(j.actions) == 0 || j.actions[0].Respond == nil {
		p.succeed(cmd, disposition("started"))
	}
	p.startLocked(j)
}

// playPrompt plays the script's own actions for every prompt: as a run when pi
// is idle, else beside the run that is on.
func (p *pi) playPrompt(actions []action, cmd *command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		go p.play(context.Background(), actions, cmd)
		return
	}
	p.startLocked(job{cmd.text(), cmd, actions})
}

// startLocked makes pi busy until the job and all that is queued is done.
func (p *pi) startLocked(j job) {
	r := &run{p: p, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	p.run = r
	go func() {
		defer close(r.done)
		for ok := true; ok; j, ok = r.next() {
			r.perform(j)
		}
	}()
}

// perform does one job. If its last action writes, which for most scripts is
// the agent_settled, then that is the end of the run at the same moment.
func (r *run) perform(j job) {
	if len(j.actions) == 0 {
		answer := "You said: " + j.text
		j.actions = []action{{Turn: &answer}}
	}
	n := len(j.actions) - 1
	if n > 0 && !r.p.play(r.ctx, j.actions[:n], j.cmd) {
		return // an abort; but one that comes before anything still gets its aborted turn
	}
	switch last := j.actions[n]; {
	case last.Turn != nil:
		r.p.turns(r.ctx, j.text, last, r.settle)
	case last.Default:
		r.p.playDefault(r.ctx, j.cmd, r.settle)
	case last.writes():
		r.settle(func() { r.p.step(r.ctx, last, j.cmd) })
	default:
		r.p.step(r.ctx, last, j.cmd)
	}
}

// settle writes the end of a run and makes pi idle under one lock, so whoever
// reads the end and prompts finds pi idle. Something queued keeps it busy.
func (r *run) settle(write func()) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	write()
	if r.ctx.Err() != nil || len(r.p.steering)+len(r.p.followUp) == 0 {
		r.endLocked()
	}
}

// next takes the next job from the queue, or ends the run.
func (r *run) next() (job, bool) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.p.run != r {
		return job{}, false // settled
	}
	j, ok := r.p.nextLocked(r.ctx, true)
	if !ok {
		r.endLocked()
	}
	return j, ok
}

func (r *run) endLocked() {
	r.cancel()
	r.p.run = nil
}

// abort stops the run and waits until it is over. What a script has opened and
// left open is closed here.
func (p *pi) abort() {
	p.stopRun()
	if p.out.isOpen() {
		p.out.record(field{"type", "agent_end"}, field{"messages", []message{}}, field{"willRetry", false})
		p.out.record(field{"type", "agent_settled"}, field{"aborted", true})
	}
}

func (p *pi) stopRun() {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}
