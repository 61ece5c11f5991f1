package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"pi-mcp/artifacts"
	"pi-mcp/store"
)

// A ListResult is a page of agents, newest first.
type ListResult struct {
	Count      int     `json:"count"`
	Total      int     `json:"total"`
	Agents     []Entry `json:"agents"`
	NextCursor *string `json:"next_cursor" jsonschema:"pass it as cursor for the next page; null at the end"`
}

// A ListRequest says which agents to list. The zero value means all.
type ListRequest struct {
	States []State // public states
	Limit  int     // 0: as many as fit into Bytes
	Bytes  int     // of the encoded page; 0: no limit
	Cursor string  // from the page before
}

// List returns the agents that the caller can see, newest first.
func (s *Supervisor) List(ctx context.Context, who Caller, req ListRequest) (ListResult, error) {
	if req.Cursor != "" {
		if err := checkID("cursor", req.Cursor); err != nil {
			return ListResult{}, &ArgError{"cursor", "is not a cursor: pass next_cursor of the page before, or leave it out"}
		}
	}
	q := store.Query{Group: who.Group, States: stored(req.States), Before: req.Cursor, Limit: req.Limit}
	if who.caged() && q.Limit == 0 {
		q.Limit = agentPage
	}
	if who.caged() && !s.cfg.GroupScope {
		q.Kin = who.Agent
	}
	if q.Limit == 0 && req.Bytes > 0 {
		q.Limit = req.Bytes / minEntry // no more than this can fit
	}
	limit := q.Limit
	if limit > 0 {
		q.Limit++ // one more tells whether there is a next page
	}
	rows, total, err := s.cfg.Store.List(ctx, q)
	if err != nil {
		return ListResult{}, err
	}
	all, err := s.entries(ctx, who, rows)
	if err != nil {
		return ListResult{}, err
	}
	n := len(all)
	if limit > 0 {
		n = min(n, limit)
	}
	n = fit(all[:n], req.Bytes)
	res := ListResult{Count: n, Total: total, Agents: all[:n]}
	if n < len(all) {
		res.NextCursor = &all[max(n-1, 0)].AgentID
	}
	return res, nil
}

// What one encoded entry takes, in bytes: at least, and at most when its names
// are not unusually long.
const (
	minEntry   = 500
	usualEntry = 1 << 10
)

// fit returns how many entries, from the first, encode to at most most bytes; at
// least one. Zero means no limit.
func fit(all []Entry, most int) int {
	if most <= 0 || len(all)*usualEntry <= most && !slices.ContainsFunc(all, unusual) {
		return len(all)
	}
	for i := range all {
		text, err := json.Marshal(&all[i])
		if most -= len(text) + 1; err != nil || most < 0 {
			return max(i, 1)
		}
	}
	return len(all)
}

func unusual(e Entry) bool {
	return len(e.Name)+len(e.Provider)+len(e.Model) > 150 || len(e.Children) > 2
}

// agentPage is how many agents a caged agent gets that asks for no number: what it is
// told goes into its context.
const agentPage = 25

func (s *Supervisor) entries(ctx context.Context, who Caller, rows []store.Agent) ([]Entry, error) {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	children, err := s.cfg.Store.Children(ctx, who.Group, ids)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Entry, len(rows))
	for i := range rows {
		all[i] = entryOf(&rows[i], s.live[rows[i].ID])
		all[i].Children = list(children[rows[i].ID])
	}
	return all, nil
}

// stored are the internal states behind public ones.
func stored(public []State) []string {
	var all []string
	for _, s := range []State{Starting, Idle, Active, Stopping, Ripped, Exited} {
		if slices.Contains(public, s.Public()) {
			all = append(all, string(s))
		}
	}
	return all
}

// Info returns everything about one agent.
func (s *Supervisor) Info(ctx context.Context, who Caller, id string) (Info, error) {
	row, err := s.row(ctx, who, id)
	if err != nil {
		return Info{}, err
	}
	return s.info(ctx, row)
}

// info is everything about a row. What has happened is told even to a caller who is
// gone.
func (s *Supervisor) info(ctx context.Context, row store.Agent) (Info, error) {
	ctx = context.WithoutCancel(ctx)
	i := infoOf(&row, s.cfg.Artifacts.Paths(row.ID), s.find(row.ID))
	children, err := s.cfg.Store.Children(ctx, row.Group, []string{row.ID})
	if err != nil {
		return i, err
	}
	i.Children = list(children[row.ID])
	if row.Callback == "" {
		return i, nil
	}
	c, err := s.cfg.Store.Callback(ctx, row.ID)
	i.Callback.SettleCount, i.Callback.NotifiedSeq = c.LastSeq, c.NotifiedSeq
	i.Callback.NotifiedAt, i.Callback.Error = stampOrNil(c.NotifiedAt), c.Error
	return i, err
}

// files opens the artifacts of an agent that the caller may see.
func (s *Supervisor) files(ctx context.Context, who Caller, id string) (*artifacts.Dir, error) {
	if _, err := s.row(ctx, who, id); err != nil {
		return nil, err
	}
	dir, err := s.cfg.Artifacts.Agent(id)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, artifacts.ErrForeign) {
		return nil, &ArgError{"agent_id", "its directory is missing or not this server's; remove takes the rest away"}
	}
	return dir, err
}

// Read returns a part of a log.
func (s *Supervisor) Read(ctx context.Context, who Caller, id string, stream artifacts.Stream, r artifacts.Range) (artifacts.Chunk, error) {
	dir, err := s.files(ctx, who, id)
	if err != nil {
		return artifacts.Chunk{}, err
	}
	defer dir.Close()
	c, err := dir.ReadLog(ctx, stream, r)
	return c, argError(err)
}

// ReadTmp returns a part of a file in the agent's /tmp.
func (s *Supervisor) ReadTmp(ctx context.Context, who Caller, id, path string, r artifacts.Range) (artifacts.Chunk, error) {
	dir, err := s.files(ctx, who, id)
	if err != nil {
		return artifacts.Chunk{}, err
	}
	defer dir.Close()
	c, err := dir.ReadTmp(ctx, path, r)
	return c, argError(err)
}

// ListTmp lists the agent's /tmp.
func (s *Supervisor) ListTmp(ctx context.Context, who Caller, id, path string, recursive bool, most int) (artifacts.Listing, error) {
	dir, err := s.files(ctx, who, id)
	if err != nil {
		return artifacts.Listing{}, err
	}
	defer dir.Close()
	l, err := dir.ListTmp(ctx, path, recursive, most)
	return l, argError(err)
}

// argError makes what artifacts says of an argument this package's own.
func argError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &ArgError{"agent_id", "a file of it is missing, perhaps because it is being removed: " + err.Error()}
	}
	if bad, ok := errors.AsType[*artifacts.ArgError](err); ok {
		return &ArgError{bad.Arg, bad.Reason}
	}
	return err
}
