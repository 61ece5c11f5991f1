package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"pi-mcp/cage"
	"pi-mcp/cage/egress"
	"pi-mcp/store"
)

// A line is what a new agent has from the one that starts it. That of a client's
// agent is nil.
type line struct {
	parent  store.Agent
	ceiling *store.Ceiling // what the parent was given
	bounds  cage.Grants    // the same as its cage is made to now
}

// lineOf finds what an agent is bounded by that who starts, but for its paths.
func (s *Supervisor) lineOf(ctx context.Context, who Caller) (*line, error) {
	if !who.caged() {
		return nil, nil
	}
	parent, err := s.cfg.Store.Any(ctx, who.Agent)
	if err != nil {
		return nil, err
	}
	if int64(parent.Depth) >= s.cfg.Limits.Depth {
		return nil, &LimitError{Name: "max-depth", Value: s.cfg.Limits.Depth,
			Remedy: fmt.Sprintf("you are at depth %d and can start no agents; do the work yourself", parent.Depth)}
	}
	id, err := s.cfg.Store.Full(ctx, append(slices.Clone(parent.Ancestors), parent.ID), s.cfg.Limits.Descendants)
	if err != nil {
		return nil, err
	}
	if id != "" {
		return nil, s.full(id)
	}
	return &line{parent: parent, ceiling: &store.Ceiling{
		Write: parent.Write, Read: parent.Read, Denied: parent.Denied, Network: parent.Network,
	}}, nil
}

// full says that an agent has had all its descendants.
func (s *Supervisor) full(id string) error {
	return &LimitError{Name: "max-descendants", Value: s.cfg.Limits.Descendants,
		Remedy: "agent " + id + " has started that many over its life, with those that they started; go on with the ones there are"}
}

// bind finds the rules that the paths of a new agent must lie within.
func (s *Supervisor) bind(l *line) (err error) {
	if l != nil {
		l.bounds, err = s.bounds(l.ceiling)
	}
	return err
}

// bounds are the rules that a ceiling means now, with what is closed automatically.
// What is gone by now is not in them: it gives nothing.
func (s *Supervisor) bounds(c *store.Ceiling) (cage.Grants, error) {
	g := cage.Grants{Write: present(c.Write), Read: present(c.Read), Denied: present(c.Denied)}
	rules, err := g.Complete(s.policy())
	return rules.Grants, grantError(err)
}

func present(paths []string) (there []string) {
	for _, p := range paths {
		if _, err := os.Lstat(p); err == nil {
			there = append(there, p)
		}
	}
	return there
}

// grants makes the paths of a request canonical and narrows them to the caller's.
func (s *Supervisor) grants(req RunRequest, l *line) (cage.Grants, error) {
	if l == nil {
		return resolve(req.Grants, s.policy())
	}
	for _, a := range []struct {
		name  string
		paths []string
	}{{"write", req.Grants.Write}, {"read", req.Grants.Read}, {"denied", req.Grants.Denied}, {"cwd", ownPlaces(req.Cwd)}} {
		if err := l.owns(a.name, a.paths); err != nil {
			return cage.Grants{}, err
		}
	}
	now, err := req.Grants.Resolve(s.policy())
	if err != nil {
		return now, l.hide(err)
	}
	if _, err := cage.Narrow(now, l.bounds); err != nil {
		return now, l.hide(err)
	}
	// What is closed automatically is found anew at each start and not kept.
	now, err = cage.Narrow(now, cage.Grants{Write: l.ceiling.Write, Read: l.ceiling.Read, Denied: l.ceiling.Denied})
	return now, l.hide(err)
}

// hide keeps what an error says of a path that is not the caller's from it: between
// two looks at a path a symlink on it may have been moved.
func (l *line) hide(err error) error {
	bad, ok := errors.AsType[*cage.GrantError](err)
	if !ok || l.inside(bad.Path) && l.leadsInside(bad.Path) {
		return grantError(err)
	}
	return outside(bad.Arg, "a path")
}

// ownPlaces is a working directory as a list, empty for one that every cage has.
func ownPlaces(cwd string) []string {
	if cwd == "" || cwd == "/tmp" || cwd == "/home/agent" {
		return nil
	}
	return []string{cwd}
}

// owns refuses paths that are not inside the caller's own, before anything is looked
// up for it: by asking, an agent must not find out what else the host has.
func (l *line) owns(arg string, paths []string) error {
	for _, p := range paths {
		if arg == "denied" && slices.Contains(l.bounds.Denied, p) {
			continue // known to the caller, and denied in any case
		}
		if !l.inside(filepath.Clean(p)) || !l.leadsInside(p) {
			return outside(arg, fmt.Sprintf("%q", p))
		}
	}
	return nil
}

func (l *line) leadsInside(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && l.inside(real)
}

func outside(arg, path string) error {
	return &ArgError{arg, fmt.Sprintf("%s is not there or not inside your own paths: name one that you were granted, or one below it. "+
		"Your /tmp and /home/agent are yours alone and cannot be given away", path)}
}

func (l *line) inside(path string) bool {
	in := func(dir string) bool { return within(path, dir) }
	return filepath.IsAbs(path) && !slices.ContainsFunc(l.bounds.Denied, in) &&
		(slices.ContainsFunc(l.bounds.Write, in) || slices.ContainsFunc(l.bounds.Read, in))
}

// network reads the policy of a request; "" is the server's, or what the caller has
// of it.
func (s *Supervisor) network(text string, l *line) (egress.Policy, error) {
	p, err := s.checkNetwork(text)
	if l == nil || err != nil {
		return p, err
	}
	parent := policyOf(l.ceiling.Network)
	if text == "" {
		if p, err = egress.Narrow(p, parent); err != nil { // nothing in common
			return egress.Provider, nil
		}
		return p, nil
	}
	if !p.Within(parent) {
		return p, &ArgError{"network", fmt.Sprintf("%s is more than your own, which is %s: ask for that or less", p, parent)}
	}
	return p, nil
}

// descend writes into a new row where it comes from. A client's has nothing of that.
func (l *line) descend(row *store.Agent) {
	if l == nil {
		return
	}
	p := &l.parent
	row.Parent, row.Depth, row.Ceiling = p.ID, p.Depth+1, l.ceiling
	row.Ancestors = append(slices.Clone(p.Ancestors), p.ID)
	row.Account = cmp.Or(p.Account, p.Group)
}

// accounts are the groups whose limits a new agent counts against, but for its own.
func (l *line) accounts(who Caller) []string {
	if l == nil {
		return []string{who.Group}
	}
	return []string{who.Group, cmp.Or(l.parent.Account, l.parent.Group)}
}

// narrowed checks the rules of a start against what the agent's parent was given, as
// both are now.
func (s *Supervisor) narrowed(row *store.Agent, now cage.Grants) (cage.Grants, error) {
	if row.Ceiling == nil {
		return now, nil
	}
	if p := policyOf(row.Ceiling.Network); !policyOf(row.Network).Within(p) {
		return now, &ArgError{"network", fmt.Sprintf("%s is more than the parent's, which is %s: run a new agent", row.Network, p)}
	}
	bounds, err := s.bounds(row.Ceiling)
	if err != nil {
		return now, err
	}
	now, err = cage.Narrow(now, bounds)
	return now, grantError(err)
}

// checkCallback refuses a target that the caller cannot reach, as unknown.
func (s *Supervisor) checkCallback(ctx context.Context, who Caller, l *line, id string) error {
	if err := checkID("callback_agent_id", id); err != nil {
		return err
	}
	row, err := s.cfg.Store.Any(ctx, id)
	if err == nil && !row.Removing && reaches(who, l, &row) {
		return nil
	}
	if err == nil || errors.Is(err, ErrNotFound) {
		return &ArgError{"callback_agent_id", "no such agent: pass the id of one that list shows, or your own AGENT_ID"}
	}
	return err
}

// reaches reports whether the caller may have an agent told of another's ends: a
// client those of its group, a caged agent itself, its descendants and its ancestors.
func reaches(who Caller, l *line, target *store.Agent) bool {
	switch {
	case l == nil:
		return target.Group == who.Group
	case target.ID == who.Agent, slices.Contains(l.parent.Ancestors, target.ID):
		return true
	}
	return target.Group == who.Group && slices.Contains(target.Ancestors, who.Agent)
}
