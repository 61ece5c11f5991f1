package agent

import (
	"context"
	"errors"
	"fmt"

	"pi-mcp/artifacts"
	"pi-mcp/store"
)

// erase removes all that is left of an agent whose row is tombstoned. It may be
// repeated from any point. A directory that is not this database's is left alone;
// one that cannot be deleted now stays in the trash for the next time.
func (s *Supervisor) erase(id string) error {
	if err := s.cfg.Artifacts.Trash(id); errors.Is(err, artifacts.ErrForeign) {
		s.cfg.Log.Warn("the directory of a removed agent is not this database's and stays", "agent", id, "err", err)
	} else if err != nil {
		return fmt.Errorf("cannot set aside the directory: %w", err)
	}
	err := s.store(func(ctx context.Context) error { return s.cfg.Store.Delete(ctx, id) })
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("cannot delete the row: %w", err)
	}
	s.emptyTrash()
	return nil
}

// emptyTrash deletes the directories of removed agents.
func (s *Supervisor) emptyTrash() {
	if err := s.cfg.Artifacts.EmptyTrash(); err != nil {
		s.cfg.Log.Warn("cannot delete all that was removed; it is tried again at the next removal", "err", err)
	}
}
