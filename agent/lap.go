package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"pi-mcp/agent/pirpc"
)

// lap refreshes the live agents one after the other, with a pause after each,
// until the supervisor closes. It only refreshes: what ends a run or a process
// is heard from pi and from the kernel, not found here. Once a lap it takes over
// the agents of servers that have died since.
func (s *Supervisor) lap() {
	tick := time.NewTicker(s.cfg.RefreshPause)
	defer tick.Stop()
	for {
		if err := s.adopt(s.ctx); err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Warn("cannot take over the agents of a dead server", "err", err)
		}
		ids := s.liveIDs()
		if len(ids) == 0 {
			ids = []string{""} // keep the pause
		}
		for _, id := range ids {
			select {
			case <-s.ctx.Done():
				return
			case <-tick.C:
			}
			if a := s.find(id); a != nil {
				a.offer(a.refresh)
			}
		}
	}
}

func (s *Supervisor) liveIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.live))
}

// refresh brings the numbers of a running agent up to date. It runs in loop.
func (a *liveAgent) refresh() {
	if a.state != Active || a.pi == nil || a.turn.settling > 0 {
		return
	}
	a.askStats(func() {})
	err := a.pi.Send("get_state", nil, func(r pirpc.Response) {
		var d struct {
			IsStreaming, IsCompacting bool
			PendingMessageCount       int
		}
		if r.Err != nil || !r.Success || json.Unmarshal(r.Data, &d) != nil {
			return // one missed answer changes nothing
		}
		resting := !d.IsStreaming && !d.IsCompacting && d.PendingMessageCount == 0
		a.tell(func() { a.refreshed(resting) })
	})
	if err != nil {
		a.sup.cfg.Log.Debug("cannot refresh", "agent", a.id, "err", err)
	}
}

// quietLaps is how often in a row pi must deny a prompt that it took before the
// prompt is given up.
const quietLaps = 3

// refreshed takes pi's own view of itself. A prompt that pi took but that never
// became a run would show the agent active for ever: after quietLaps laps it is
// settled.
func (a *liveAgent) refreshed(resting bool) {
	if a.state != Active {
		return
	}
	t := &a.turn
	if !resting || t.running || t.unanswered > 0 || t.settling > 0 {
		t.quiet = 0
		a.save()
		return
	}
	if t.quiet++; t.quiet < quietLaps {
		a.save()
		return
	}
	t.quiet = 0
	a.sup.cfg.Log.Warn("pi knows nothing of a prompt that it took", "agent", a.id)
	a.settled(false)
}
