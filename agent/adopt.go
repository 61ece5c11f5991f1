package agent

import (
	"context"
	"time"

	"pi-mcp/cage"
	"pi-mcp/store"
)

// adopt puts in order what servers left that did not stop by themselves: their
// agents are dead, their removals half done.
func (s *Supervisor) adopt(ctx context.Context) error {
	s.adopting.Lock() // else one call of ours would be a live owner to another
	defer s.adopting.Unlock()
	var gone []string
	err := s.cfg.Store.Adopt(ctx, func(ctx context.Context, rows []store.Agent) error {
		s.groups.sweep(ctx, rows)
		for _, row := range rows {
			if err := s.lose(ctx, &row); err != nil {
				return err
			}
			if row.Removing {
				gone = append(gone, row.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range gone {
		if err := s.erase(id); err != nil {
			s.cfg.Log.Warn("cannot finish a removal; the next server tries again", "agent", id, "err", err)
		}
	}
	return nil
}

// lose writes down that the server of a row is dead. Its process should be too,
// since bubblewrap dies with its parent; one that is not is killed.
func (s *Supervisor) lose(ctx context.Context, row *store.Agent) error {
	if row.Removing {
		row.Owner = s.cfg.Store.Owner()
		return s.cfg.Store.Save(ctx, *row)
	}
	if row.PID != 0 {
		if err := cage.KillStale(row.PID, row.PIDStart, row.Boot); err != nil {
			s.cfg.Log.Warn("cannot end a left-over process", "agent", row.ID, "pid", row.PID, "err", err)
		}
	}
	was := State(row.State)
	to, err := was.On(Lost, Facts{Resume: State(row.Resume)})
	if err != nil {
		return err
	}
	if to == Exited {
		row.LastError = filled("the server that ran it died at or after " + stamp(row.Updated))
	}
	s.cfg.Log.Info("found an agent of a dead server", "agent", row.ID, "was", was, "now", to)
	if dir, err := s.cfg.Artifacts.Agent(row.ID); err == nil {
		sizes := dir.Sizes()
		row.StdoutBytes, row.StderrBytes, row.SessionBytes = sizes.Stdout, sizes.Stderr, sizes.Session
		dir.Close()
	}
	row.State, row.Living, row.Owner, row.Resume = string(to), false, "", ""
	row.PID, row.PIDStart, row.Boot = 0, 0, ""
	row.Updated = time.Now()
	if to == Gone {
		row.Removing, row.Owner = true, s.cfg.Store.Owner()
	}
	return s.saveLost(ctx, row, was)
}

// saveLost stores the end of an agent of a dead server. Who waits for a run that was
// on is to be told.
func (s *Supervisor) saveLost(ctx context.Context, row *store.Agent, was State) error {
	if was != Active || row.Callback == "" {
		return s.cfg.Store.Save(ctx, *row)
	}
	pending, err := s.cfg.Store.Working(ctx, row.ID, working(), s.cfg.Limits.Callbacks)
	if err != nil {
		return err
	}
	return s.cfg.Store.SaveOwing(ctx, *row, []store.Debt{s.debtOf(row, whyExited, pending)}, s.bound())
}
