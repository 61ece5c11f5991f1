package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"pi-mcp/agent/pi"
	"pi-mcp/cage"
	"pi-mcp/store"
)

// Limits on arguments that are not flags.
const (
	minContext = 20_000      // tokens; below it pi's own prompt does not fit
	maxContext = 100_000_000 // tokens; more than any model has
	maxName    = 200         // characters of a provider, a model or a name
	minToken   = 8           // characters of an access token
	maxToken   = 4096

	// A token that an agent makes up guards the group it makes; nobody else gets to
	// see it and to judge whether it can be guessed.
	minAgentToken = 32
)

// checkID refuses what is no agent id, so that an id can never be a path.
func checkID(arg, id string) error {
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return &ArgError{arg, "is not an agent id: pass the agent_id that run or list returned"}
	}
	return nil
}

func (s *Supervisor) checkMessage(arg, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return &ArgError{arg, "must not be empty"}
	case int64(len(text)) > s.cfg.Limits.Message:
		return &ArgError{arg, fmt.Sprintf("has %d bytes, the limit --max-message is %d: put the text into a file that the agent can read", len(text), s.cfg.Limits.Message)}
	}
	return nil
}

// checkRun checks what needs neither disk nor store.
func (s *Supervisor) checkRun(who Caller, req RunRequest) error {
	for _, f := range []struct{ arg, value string }{
		{"provider", req.Provider}, {"model", req.Model}, {"name", req.Name},
	} {
		if err := checkName(f.arg, f.value); err != nil {
			return err
		}
	}
	for _, f := range []struct{ arg, value string }{{"provider", req.Provider}, {"model", req.Model}} {
		if strings.HasPrefix(f.value, "-") {
			return &ArgError{f.arg, "must not begin with a dash"}
		}
	}
	if n := req.ContextSize; n != nil && (*n < minContext || *n > maxContext) {
		return &ArgError{"context_size", fmt.Sprintf("is %d: it must be at least %d tokens and at most %d", *n, minContext, maxContext)}
	}
	if req.Thinking != "" && !slices.Contains(pi.ThinkingLevels(), req.Thinking) {
		return &ArgError{"thinking", fmt.Sprintf("%q is none of pi's levels: %s", req.Thinking, strings.Join(pi.ThinkingLevels(), ", "))}
	}
	least := minToken
	if who.caged() {
		least = minAgentToken
	}
	if n := len(req.AccessToken); req.AccessToken != "" && (n < least || n > maxToken) {
		return &ArgError{"access_token", fmt.Sprintf("must have %d to %d characters", least, maxToken)}
	}
	if req.Prompt != nil {
		return s.checkMessage("prompt", *req.Prompt)
	}
	return nil
}

func checkName(arg, value string) error {
	switch {
	case value == "":
		return &ArgError{arg, "must not be empty"}
	case utf8.RuneCountInString(value) > maxName:
		return &ArgError{arg, fmt.Sprintf("is longer than %d characters", maxName)}
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return &ArgError{arg, "must be text without control characters"}
	}
	return nil
}

// resolve makes grants canonical, or says which path of which argument cannot be
// granted and why.
func resolve(g cage.Grants, p cage.Policy) (cage.Grants, error) {
	resolved, err := g.Resolve(p)
	return resolved, grantError(err)
}

// grantError names the argument that a grant came in.
func grantError(err error) error {
	if bad, ok := errors.AsType[*cage.GrantError](err); ok {
		return &ArgError{bad.Arg, fmt.Sprintf("%q: %s", bad.Path, bad.Reason)}
	}
	return err
}

// rules makes what a start obeys out of an agent's own grants. This is done at
// every start, for the paths may lead elsewhere than at the last, and not stored:
// what is added automatically is not what the caller asked for.
func (s *Supervisor) rules(row *store.Agent, l *launch) error {
	policy := s.policy()
	now, err := resolveAgain(cage.Grants{Write: row.Write, Read: row.Read, Denied: row.Denied}, policy)
	if err != nil {
		return err
	}
	if now, err = s.narrowed(row, now); err != nil {
		return err
	}
	rules, err := now.Complete(policy)
	if err != nil {
		return grantError(err)
	}
	l.grants, l.warnings = rules.Grants, rules.Warnings
	for _, d := range rules.Grants.Denied {
		if within(row.Cwd, d) {
			return &ArgError{"cwd", fmt.Sprintf("%q lies in %q, which is denied automatically: name that path in write or read", row.Cwd, d)}
		}
	}
	return nil
}

// resolveAgain checks stored grants before a start: each path must still be
// itself, because an agent may have put a symlink in its place.
func resolveAgain(stored cage.Grants, p cage.Policy) (cage.Grants, error) {
	now, err := resolve(stored, p)
	if err != nil {
		return now, err
	}
	for _, arg := range []struct {
		name      string
		was, isit []string
	}{
		{"write", stored.Write, now.Write}, {"read", stored.Read, now.Read}, {"denied", stored.Denied, now.Denied},
	} {
		for _, p := range arg.was {
			if _, err := os.Lstat(p); arg.name == "denied" && errors.Is(err, fs.ErrNotExist) {
				continue // gone, and no grant would show it
			}
			if !slices.Contains(arg.isit, p) {
				return now, &ArgError{arg.name, fmt.Sprintf("%q leads elsewhere than when it was granted: put it back, or run a new agent", p)}
			}
		}
	}
	return now, nil
}

// checkCwd returns the working directory in the cage.
func checkCwd(cwd string, g cage.Grants) (string, error) {
	if cwd == "" {
		return "/tmp", nil
	}
	if !filepath.IsAbs(cwd) || strings.ContainsRune(cwd, 0) {
		return "", &ArgError{"cwd", "must be an absolute path"}
	}
	if cwd == "/tmp" || cwd == "/home/agent" {
		return cwd, nil
	}
	real, err := filepath.EvalSymlinks(cwd)
	if err != nil || !isDir(real) {
		return "", &ArgError{"cwd", fmt.Sprintf("%q is no directory: make it first, or leave cwd out for /tmp", cwd)}
	}
	for _, d := range g.Denied {
		if within(real, d) {
			return "", &ArgError{"cwd", fmt.Sprintf("%q lies in the denied path %q", cwd, d)}
		}
	}
	for _, p := range append(append([]string{}, g.Write...), g.Read...) {
		if within(real, p) {
			return real, nil
		}
	}
	return "", &ArgError{"cwd", fmt.Sprintf("%q lies in no granted path: add it to write or read", cwd)}
}

// within reports whether path is dir or below it. Both are clean.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// groupOf is the group that a new agent goes to.
func (s *Supervisor) groupOf(who Caller, token string) (string, error) {
	if token == "" {
		return who.Group, nil
	}
	sum := sha256.Sum256([]byte(token))
	g, err := storing(s, func(ctx context.Context) (store.Group, error) {
		return s.cfg.Store.MakeGroup(ctx, sum[:], who.caged())
	})
	return g.ID, err
}

// GroupOf returns the group of an access token, made if it is new. The token is
// stored as its SHA-256 only.
func (s *Supervisor) GroupOf(ctx context.Context, token string) (string, error) {
	sum := sha256.Sum256([]byte(token))
	g, err := s.cfg.Store.MakeGroup(ctx, sum[:], false)
	return g.ID, err
}
