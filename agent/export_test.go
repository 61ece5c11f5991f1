package agent

// Waiting counts the agents that somebody waits for.
func (s *Supervisor) Waiting() int {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	return len(s.waiters.by)
}
