package main

import "context"

// enqueue queues the message of a steer or follow_up command. When pi is idle it
// stays there until the next prompt.
func (p *pi) enqueue(cmd *command) {
	j, err := newJob(cmd)
	if err != nil {
		p.refuse(cmd, err.Error())
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enqueueLocked(j)
}

// enqueueLocked queues a message, if its command says where.
func (p *pi) enqueueLocked(j job) {
	switch cmd := j.cmd; {
	case cmd.Type == "steer" || cmd.Behavior == "steer":
		p.steering = append(p.steering, j)
	case cmd.Type == "follow_up" || cmd.Behavior == "followUp":
		p.followUp = append(p.followUp, j)
	default:
		p.refuse(cmd, "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.")
		return
	}
	p.queueChangedLocked()
	p.succeed(j.cmd, disposition("queued"))
}

func (p *pi) clearQueue(cmd *command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.queueLocked()
	p.steering, p.followUp = nil, nil
	p.queueChangedLocked()
	p.succeed(cmd, was)
}

// nextLocked takes the next message, steering first. After an abort they stay
// where they are. One with actions of its own is taken only by those who can
// play them, and holds up the ones behind it.
func (p *pi) nextLocked(ctx context.Context, scripted bool) (job, bool) {
	if j, ok := take(ctx, &p.steering, scripted); ok || len(p.steering) > 0 {
		return j, ok
	}
	return take(ctx, &p.followUp, scripted)
}

func take(ctx context.Context, queue *[]job, scripted bool) (job, bool) {
	if len(*queue) == 0 || ctx.Err() != nil || !scripted && len((*queue)[0].actions) > 0 {
		return job{}, false
	}
	j := (*queue)[0]
	*queue = (*queue)[1:]
	return j, true
}

func (p *pi) queueChangedLocked() {
	p.out.record(append(fields{{"type", "queue_update"}}, p.queueLocked()...)...)
}

func (p *pi) queueLocked() fields {
	return fields{{"steering", texts(p.steering)}, {"followUp", texts(p.followUp)}}
}

func texts(queue []job) []string {
	list := []string{} // never null
	for _, j := range queue {
		list = append(list, j.text)
	}
	return list
}

func disposition(name string) fields { return fields{{"disposition", name}} }
