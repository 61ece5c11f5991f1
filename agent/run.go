package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"pi-mcp/cage"
	"pi-mcp/store"
)

// A RunRequest asks for one agent. Empty fields take the server's defaults.
type RunRequest struct {
	Provider, Model string
	ContextSize     *int64 // tokens, at least 20000
	Thinking        string // one of pi's levels
	Name            string // default provider/model
	Cwd             string // a directory inside the grants; default the cage's /tmp
	Grants          cage.Grants
	Network         string  // what it may reach; see egress.Parse
	Callback        string  // the agent that each settle is told to
	AccessToken     string  // whose group the agent goes to; default the caller's
	Prompt          *string // the first turn
}

// A RunResult is a new agent, and what became of its first prompt.
type RunResult struct {
	Info
	PromptSent  bool    `json:"prompt_sent"`
	Delivery    *string `json:"delivery"`
	Disposition *string `json:"disposition"`
}

// Run starts an agent and returns when pi has answered the handshake and taken
// the prompt, if there is one. When it fails, or ctx ends before, nothing is
// left: no row, no directory, no process.
func (s *Supervisor) Run(ctx context.Context, who Caller, req RunRequest) (RunResult, error) {
	if s.ctx.Err() != nil {
		return RunResult{}, ErrStopping
	}
	from, err := s.lineOf(ctx, who)
	if err != nil {
		return RunResult{}, err
	}
	if err := s.fill(&req, from); err != nil {
		return RunResult{}, err
	}
	if err := s.checkRun(who, req); err != nil {
		return RunResult{}, err
	}
	l, err := s.programs(ctx) // before the grants, which may not touch them
	if err != nil {
		return RunResult{}, err
	}
	if err := s.bind(from); err != nil {
		return RunResult{}, err
	}
	if req.Callback != "" {
		if err := s.checkCallback(ctx, who, from, req.Callback); err != nil {
			return RunResult{}, err
		}
	}
	row, err := s.plan(req, from)
	if err != nil {
		return RunResult{}, err
	}
	from.descend(&row) // before the rules of this start, which are narrowed like those of any other
	if err := s.rules(&row, &l); err != nil {
		return RunResult{}, err
	}
	if err := s.prepare(ctx, &l, row.Provider); err != nil {
		return RunResult{}, err
	}
	if err := s.room(ctx, from.accounts(who)...); err != nil { // before a new group is made
		return RunResult{}, err
	}
	if row.Group, err = s.groupOf(who, req.AccessToken); err != nil {
		return RunResult{}, err
	}
	def(&row.Account, row.Group)
	if err := s.insert(ctx, row); err != nil {
		return RunResult{}, err
	}
	a := newLive(s, row)
	if err := s.start(ctx, a, l); err != nil {
		if errors.Is(err, ErrStopping) {
			err = errors.Join(err, s.drop(row))
		}
		return RunResult{}, err
	}
	sent, err := s.firstPrompt(ctx, who, a, req.Prompt)
	if err != nil {
		return RunResult{}, s.takeBack(a, err)
	}
	if row, err = s.cfg.Store.Agent(context.WithoutCancel(ctx), row.Group, row.ID); err != nil {
		return RunResult{}, err
	}
	res := RunResult{PromptSent: req.Prompt != nil, Delivery: filled(sent.Delivery), Disposition: filled(sent.Disposition)}
	if res.Info, err = s.info(ctx, row); err != nil {
		return RunResult{}, err
	}
	if req.Prompt != nil {
		res.SettleCount = sent.SettleCount // of before the prompt: it may have settled by now
	}
	return res, nil
}

// drop takes back a row whose goroutine never began.
func (s *Supervisor) drop(row store.Agent) error {
	row.Living, row.Removing = false, true
	if err := s.store(func(ctx context.Context) error { return s.cfg.Store.Save(ctx, row) }); err != nil {
		return err
	}
	return s.erase(row.ID)
}

// takeBack removes an agent whose first prompt failed, and says why it failed. Nobody
// is told of it, for nobody was given its id, and it counts as a start that failed.
func (s *Supervisor) takeBack(a *liveAgent, why error) error {
	a.tell(func() { a.row.Callback, a.row.Ready = "", false })
	_, _ = a.end(context.Background(), Caller{}, ByRemove)
	ctx, cancel := s.writing()
	defer cancel()
	if row, err := s.cfg.Store.Any(ctx, a.id); err == nil && !row.Removing { // it ended by itself
		if row.LastError != nil {
			why = &StartError{Step: "sending the prompt", Reason: *row.LastError}
		}
		row.Ready = false
		why = errors.Join(why, s.store(func(ctx context.Context) error { return s.cfg.Store.Save(ctx, row) }))
	}
	return errors.Join(why, s.bury(a.id), s.storeOf(a.id, s.cfg.Store.Forget))
}

// firstPrompt sends the prompt of a run or a resurrection, if there is one.
func (s *Supervisor) firstPrompt(ctx context.Context, who Caller, a *liveAgent, prompt *string) (SendResult, error) {
	if prompt == nil {
		return SendResult{}, nil
	}
	s.asked(who, a.id)
	return a.send(ctx, *prompt, FollowUp)
}

// fill puts defaults into a request: the server's, or those of the agent that asks.
// Whose model may read a key, may have it read: so a child has its parent's provider,
// unless the server is told otherwise.
func (s *Supervisor) fill(req *RunRequest, from *line) error {
	provider, model := s.cfg.Provider, s.cfg.Model
	if from != nil {
		provider, model = from.parent.Provider, from.parent.Model
		if req.Provider != "" && req.Provider != provider && !s.cfg.AnyProvider {
			return &ArgError{"provider", fmt.Sprintf("%q is not your own, which is %q: leave it out; the server allows others with --child-provider any", req.Provider, provider)}
		}
	}
	if req.Provider != "" && req.Provider != provider {
		model = s.cfg.Model
	}
	def(&req.Provider, provider)
	def(&req.Model, model)
	def(&req.Name, req.Provider+"/"+req.Model)
	return nil
}

// plan checks the paths of a request and makes the row it asks for. Nothing is
// stored yet.
func (s *Supervisor) plan(req RunRequest, from *line) (store.Agent, error) {
	grants, err := s.grants(req, from)
	if err != nil {
		return store.Agent{}, err
	}
	cwd, err := checkCwd(req.Cwd, grants)
	if err != nil && from != nil { // what is wrong with a path of others is not the caller's to know
		err = outside("cwd", fmt.Sprintf("%q", req.Cwd))
	}
	if err != nil {
		return store.Agent{}, err
	}
	network, err := s.network(req.Network, from)
	if err != nil {
		return store.Agent{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return store.Agent{}, err
	}
	now := time.Now()
	row := store.Agent{
		ID: id.String(), Name: req.Name, Provider: req.Provider, Model: req.Model,
		Thinking: req.Thinking, Cwd: cwd, Callback: req.Callback,
		Write: grants.Write, Read: grants.Read, Denied: grants.Denied, Spellings: req.Grants.Spellings(),
		Network: network.String(),
		State:   string(Starting), Living: true, Owner: s.cfg.Store.Owner(),
		Created: now, Updated: now, LastActivity: now,
	}
	if req.ContextSize != nil {
		row.ContextSize = *req.ContextSize
	}
	return row, nil
}

// insert stores a new row unless a limit on live agents is reached. Between the
// count and the row nobody else of this server comes in.
func (s *Supervisor) insert(ctx context.Context, row store.Agent) error {
	s.admit.Lock()
	defer s.admit.Unlock()
	if err := s.room(ctx, row.Group, row.Account); err != nil {
		return err
	}
	// Not the caller's context: cancelled, it may leave a row and say that it did not.
	err := s.store(func(ctx context.Context) error { return s.cfg.Store.Insert(ctx, row, s.cfg.Limits.Descendants) })
	if errors.Is(err, store.ErrOrphan) {
		return &StateError{ID: row.Parent, State: Exited, Remedy: "it was stopped before the new agent began, and starts none any more"}
	}
	if full, ok := errors.AsType[*store.FullError](err); ok {
		return s.full(full.ID)
	}
	return err
}

// room reports a limit on live agents that is reached: in all, or of one of the
// groups.
func (s *Supervisor) room(ctx context.Context, groups ...string) error {
	groups = slices.DeleteFunc(groups, func(g string) bool { return g == "" }) // of a row that somebody else made
	all, in, err := s.cfg.Store.Count(ctx, groups...)
	switch {
	case err != nil:
		return err
	case int64(all) >= s.cfg.Limits.Agents:
		return &LimitError{Name: "max-agents", Value: s.cfg.Limits.Agents}
	case int64(slices.Max(in)) >= s.cfg.Limits.GroupAgents:
		return &LimitError{Name: "max-group-agents", Value: s.cfg.Limits.GroupAgents}
	}
	return nil
}

// A ResurrectResult is an agent that lives again.
type ResurrectResult struct {
	Info
	Resurrected bool    `json:"resurrected"`
	PromptSent  bool    `json:"prompt_sent"`
	Delivery    *string `json:"delivery"`
	Disposition *string `json:"disposition"`
}

// Resurrect starts a stopped agent again from its session, with everything it
// was first given. When the start fails the agent is what it was before. A
// prompt that pi refuses is an error, but the agent stays alive.
func (s *Supervisor) Resurrect(ctx context.Context, who Caller, id string, prompt *string) (ResurrectResult, error) {
	if prompt != nil {
		if err := s.checkMessage("prompt", *prompt); err != nil {
			return ResurrectResult{}, err
		}
	}
	a, err := s.revive(ctx, who, id)
	if err != nil {
		return ResurrectResult{}, err
	}
	sent, err := s.firstPrompt(ctx, who, a, prompt)
	if err != nil {
		return ResurrectResult{}, err
	}
	row, err := s.cfg.Store.Agent(context.WithoutCancel(ctx), who.Group, id)
	if err != nil {
		return ResurrectResult{}, err
	}
	res := ResurrectResult{Resurrected: true, PromptSent: prompt != nil}
	if res.Info, err = s.info(ctx, row); err != nil {
		return ResurrectResult{}, err
	}
	if prompt != nil {
		res.SettleCount = sent.SettleCount
		res.Delivery, res.Disposition = filled(resurrectPrompt), filled(sent.Disposition)
	}
	return res, nil
}

// revive starts a stopped agent and returns it once it is ready.
func (s *Supervisor) revive(ctx context.Context, who Caller, id string) (*liveAgent, error) {
	row, a, err := s.owned(ctx, who, id)
	if err != nil {
		return nil, err
	}
	if a != nil || row.Living {
		return nil, &StateError{ID: id, State: State(row.State), Remedy: "it is alive already; use send_message"}
	}
	l, err := s.programs(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.rules(&row, &l); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, &l, row.Provider); err != nil {
		return nil, err
	}
	if row, err = s.claim(ctx, row); err != nil {
		return nil, err
	}
	a = newLive(s, row)
	if err := s.start(ctx, a, l); err != nil {
		if errors.Is(err, ErrStopping) {
			err = errors.Join(err, s.unclaim(row))
		}
		return nil, err
	}
	return a, nil
}

// claim makes a stopped agent's row this server's, in state Starting, and returns
// it as it is by then: finding out what a start needs has taken a while.
func (s *Supervisor) claim(ctx context.Context, row store.Agent) (store.Agent, error) {
	s.admit.Lock()
	defer s.admit.Unlock()
	if err := s.room(ctx, row.Group, row.Account); err != nil {
		return row, err
	}
	claimed, err := storing(s, func(ctx context.Context) (store.Agent, error) {
		return s.cfg.Store.Claim(ctx, row.ID, string(Starting), time.Now())
	})
	if errors.Is(err, store.ErrNotFound) {
		return row, &StateError{ID: row.ID, State: Active, Remedy: "somebody else has just resurrected or removed it"}
	}
	return claimed, err
}

// unclaim undoes claim for an agent whose goroutine never began.
func (s *Supervisor) unclaim(row store.Agent) error {
	row.State, row.Resume, row.Owner, row.Living = row.Resume, "", "", false
	return s.store(func(ctx context.Context) error { return s.cfg.Store.Save(ctx, row) })
}
