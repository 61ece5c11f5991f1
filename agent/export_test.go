package agent

import "time"

// Waiting counts the agents that somebody waits for.
func (s *Supervisor) Waiting() int {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	return len(s.waiters.by)
}

// Cover begins a wait of an agent for others, as the wait tool does.
func Cover(s *Supervisor, id string, ids []string) {
	inLoop(s, id, func(a *liveAgent) { a.cover(ids) })
}

// Uncover ends it. taken are, by agent, the last ends that it has returned.
func Uncover(s *Supervisor, id string, ids []string, taken map[string]int64) {
	inLoop(s, id, func(a *liveAgent) { a.uncover(ids, taken) })
}

// inLoop returns once f has run in the loop of a live agent.
func inLoop(s *Supervisor, id string, f func(*liveAgent)) {
	a, done := s.find(id), make(chan struct{})
	a.tell(func() { f(a); close(done) })
	<-done
}

// SetPatience sets how long the endpoint of a live agent waits for what it answers to
// be taken.
func SetPatience(s *Supervisor, id string, most time.Duration) {
	inLoop(s, id, func(a *liveAgent) { a.endpoint.patience = most })
}

// SetQueue sets how long calls wait there for a slot.
func SetQueue(s *Supervisor, id string, most time.Duration) {
	inLoop(s, id, func(a *liveAgent) { a.endpoint.queue = most })
}
