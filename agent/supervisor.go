// Package agent runs coding agents: one pi, in one cage, for each.
//
// A Supervisor is the whole API. Its methods take a Caller, check it, and either
// read the store or send a message to the one goroutine that owns the agent in
// question (liveAgent.loop). What may happen next to an agent is decided in
// lifecycle.go and nowhere else.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"pi-mcp/artifacts"
	"pi-mcp/cage"
	"pi-mcp/cage/egress"
	"pi-mcp/store"
)

// Config is what a Supervisor needs. Fields without a stated default are required.
type Config struct {
	Store     *store.DB
	Artifacts *artifacts.Store
	StateDir  string   // the server's own directory: caches and the files that cages need; no agent is granted it
	HostPi    string   // pi's own directory on the host, with its models and logins
	Protected []string // more host paths that no agent may be granted; may be empty
	Home      string   // the user's home directory, which no agent gets whole; may be empty

	Path  string // where programs are looked for, as in $PATH
	Pi    string // the pi to run; default: pi in Path
	Node  string // the Node.js to run it with; default: found beside pi or in Path
	Bwrap string // default: bwrap in Path
	Init  string // this program built without cgo, or what else cage.Config.Init may be

	Provider string // of a run that names none; default deepseek
	Model    string // of a run that names none; default deepseek-flash

	Network     egress.Policy    // of a run that names none; default egress.Internet
	EgressAllow []netip.AddrPort // local addresses that agents may reach all the same; may be empty

	ChildMCP bool // gives every agent an endpoint of its own, see Serve

	RefreshPause time.Duration // between two agents of the background lap; 0: no lap
	CheckPause   time.Duration // between two looks at what an agent keeps on disk, at least; 0: none
	CheckGrace   int           // looks that an agent may stay over a limit after it was told; default 6
	Handshake    time.Duration // for pi's first answer; default 60 s
	Grace        time.Duration // from a rip to the kill; default 3 s
	CloseGrace   time.Duration // the same when the server stops; default 1 s

	Limits       Limits        // zero means none of everything: see DefaultLimits
	CallbackHold time.Duration // how long an agent's settle may wait for its children's; default 10 min
	GroupScope   bool          // caged agents may read every agent of their group
	AnyProvider  bool          // caged agents may start agents with other providers than their own

	Log *slog.Logger // default: discard
}

func (c *Config) fill() error {
	if c.Store == nil || c.Artifacts == nil || c.StateDir == "" || c.HostPi == "" || c.Init == "" {
		return errors.New("incomplete agent.Config: Store, Artifacts, StateDir, HostPi and Init are required")
	}
	def(&c.Provider, "deepseek")
	def(&c.Model, "deepseek-flash")
	def(&c.Network, egress.Internet)
	def(&c.Handshake, 60*time.Second)
	def(&c.Grace, 3*time.Second)
	def(&c.CloseGrace, time.Second)
	def(&c.CallbackHold, 10*time.Minute)
	def(&c.CheckGrace, 6)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// def sets a field that is still zero.
func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Supervisor owns agents. It is safe for concurrent use. Its goroutines end
// before Close returns.
type Supervisor struct {
	cfg  Config
	boot string // boot id of this machine, for rows

	ctx    context.Context // ends when Close begins; the agents' lifetime
	cancel context.CancelFunc
	wg     sync.WaitGroup // one for each agent and one for the lap

	serve Endpoint // nil: agents have no endpoint

	tools  tools  // what starts need and is found out once
	groups groups // what holds all processes of an agent to limits together

	waiters waiters // whom to tell of an agent's change

	admit    sync.Mutex    // held from counting live agents to inserting one more
	adopting sync.Mutex    // held while agents of dead servers are taken over
	late     chan struct{} // closed when the stop waits for no write any more

	mu      sync.Mutex // guards the fields below
	live    map[string]*liveAgent
	closing bool
}

// New returns a supervisor after putting in order what dead servers left in the
// store and below the agents directory.
func New(ctx context.Context, cfg Config) (*Supervisor, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Supervisor{cfg: cfg, boot: cage.BootID(), live: map[string]*liveAgent{}, late: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.groups = findGroups(cfg.Store.Owner(), cfg.Limits, cfg.Log)
	for _, why := range s.groups.short {
		cfg.Log.Warn("agents run without a limit that was asked for", "why", why)
	}
	if err := s.adopt(ctx); err != nil {
		s.cancel()
		return nil, fmt.Errorf("cannot take over the agents of a dead server: %w", err)
	}
	s.emptyTrash()
	s.sweepCache()
	if cfg.RefreshPause > 0 {
		s.wg.Go(s.lap)
	}
	s.wg.Go(s.postman)
	return s, nil
}

// Close stops all agents side by side, waits for them and returns when no
// process is left. Calls under way fail; later ones get ErrStopping.
func (s *Supervisor) Close() {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	s.cancel()
	if first {
		time.AfterFunc(s.cfg.CloseGrace+lastWrites, func() { close(s.late) })
	}
	s.wg.Wait()
	s.tools.close()
}

// lastWrites is how long after the grace of a stop rows may still be written. A
// database that somebody else keeps locked must not hold the stop up; the next
// server puts in order what was not written.
const lastWrites = 250 * time.Millisecond

// find returns the live agent with this id, nil when this server has none.
func (s *Supervisor) find(id string) *liveAgent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// begin starts a goroutine that Close waits for, unless Close has begun.
func (s *Supervisor) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// enlist makes a known to the supervisor and starts its goroutine.
func (s *Supervisor) enlist(a *liveAgent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrStopping
	}
	s.live[a.row.ID] = a
	s.wg.Go(a.loop)
	return nil
}

// forget is the last act of an agent's goroutine.
func (s *Supervisor) forget(a *liveAgent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, a.id)
}

// policy is what holds for the grants of every agent.
func (s *Supervisor) policy() cage.Policy {
	return cage.Policy{Forbidden: s.protected(), Programs: s.tools.paths(), Home: s.cfg.Home}
}

// protected lists the host paths that no grant may touch: what agents could change
// to break out, and what is not theirs to read.
func (s *Supervisor) protected() []string {
	paths := append([]string{s.cfg.StateDir, s.cfg.Artifacts.Root(), s.cfg.HostPi}, s.cfg.Protected...)
	if exe, err := os.Executable(); err == nil {
		paths = append(paths, exe)
	}
	return paths
}

// owned returns a row that the caller may act on and, when the agent is alive, its
// goroutine. An agent that another server keeps alive is a *ForeignError; one whose
// server is dead is taken over first.
func (s *Supervisor) owned(ctx context.Context, who Caller, id string) (store.Agent, *liveAgent, error) {
	for {
		if s.ctx.Err() != nil {
			return store.Agent{}, nil, ErrStopping
		}
		a := s.find(id)
		row, err := s.row(ctx, who, id)
		if err == nil {
			err = mayAct(who, &row)
		}
		switch {
		case err != nil:
			return row, nil, err
		case a == nil && row.Living && row.Owner != s.cfg.Store.Owner():
			if err = s.adopt(ctx); err == nil {
				err = s.foreign(row)
			}
		case (a != nil) == row.Living:
			return row, a, nil
		case a == nil: // it was started between the two looks
			err = pause(ctx)
		default: // its last state is stored, and it is about to let go
			select {
			case <-a.gone:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return row, nil, err
		}
	}
}

// foreign is a *ForeignError if another server keeps the agent alive.
func (s *Supervisor) foreign(row store.Agent) error {
	if pid, alive := s.cfg.Store.OwnerPID(row.Owner); alive {
		return &ForeignError{ID: row.ID, PID: pid}
	}
	return nil
}

// pause gives others a moment.
func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
