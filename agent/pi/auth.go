package pi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// authTimeout bounds one check. It takes 0.7 s; a refresh of a login adds
	// up to 15 s and the wait for pi's own lock up to 30 s.
	authTimeout = 60 * time.Second
	// readyFor is how long a ready answer is believed. pi renews a login that
	// has less than five minutes left, so a kept token is never a dead one.
	readyFor = 5 * time.Minute
)

// Credential is what one provider accepts, ready to use. It holds nothing that
// would renew it.
type Credential struct {
	Key string
	// OAuth says that Key is the access token of a login. Some providers go to
	// other addresses with one, or accept nothing else.
	OAuth bool
}

// NotReadyError means that pi itself, run on the host, could not use the
// provider. Its text says what the operator has to do.
type NotReadyError struct {
	Provider string
	Reason   string // pi's word for it, such as "credentials_not_configured"
}

func (e *NotReadyError) Error() string {
	switch e.Reason {
	case "provider_not_found":
		return fmt.Sprintf("pi knows no provider %q; `pi --list-models` shows those that can be used, "+
			"others are defined in pi's models.json", e.Provider)
	case "invalid_state":
		return fmt.Sprintf("pi cannot read its configuration for provider %q; "+
			"look at models.json and auth.json in %s, and at what `pi --list-models` says", e.Provider, HostDir())
	}
	return fmt.Sprintf("pi has no credentials for provider %q (%s); log in on the host with `pi auth login %s`, "+
		"or with /login inside pi, or set the provider's API key in the environment of pi-mcp",
		e.Provider, e.Reason, e.Provider)
}

// ledger remembers checks that are under way or were ready. A failed one is
// forgotten when it ends, so that a new login is seen at once.
type ledger struct {
	running sync.WaitGroup // one for each check under way

	mu     sync.Mutex // protects the fields below
	checks map[string]*check
	now    func() time.Time // nil: time.Now
	closed bool
	cut    chan struct{} // closed when checks are to end now; made with the first
}

// check is one run of `pi auth check`. The fields below done are set before it
// is closed, and never after.
type check struct {
	done chan struct{}
	cred Credential
	err  error
	at   time.Time
}

// Auth asks the host's pi for the credential of a provider, in the environment
// of this process: pi looks into its auth.json and models.json and the
// environment, and renews a login. A ready answer is kept for five minutes, any
// other not at all. Callers at the same time share one check, which goes on
// when one of them gives up. The error is a *NotReadyError when pi answered.
func (in *Install) Auth(ctx context.Context, provider string) (Credential, error) {
	if provider == "" {
		return Credential{}, &NotReadyError{provider, "provider_not_found"}
	}
	c := in.joinCheck(ctx, provider)
	select {
	case <-c.done:
		return c.cred, c.err
	case <-ctx.Done():
		return Credential{}, ctx.Err()
	}
}

// joinCheck returns the check that answers for provider, starting one if needed.
func (in *Install) joinCheck(ctx context.Context, provider string) *check {
	l := &in.auth
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.checks[provider]; c != nil && l.usableLocked(c) {
		return c
	}
	if l.checks == nil {
		l.checks, l.cut = map[string]*check{}, make(chan struct{})
	}
	c := &check{done: make(chan struct{})}
	if l.closed {
		c.err = context.Canceled
		close(c.done)
		return c
	}
	l.checks[provider] = c
	l.running.Go(func() { // ends within authTimeout, or with Close
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), authTimeout)
		defer cancel()
		go func() {
			select {
			case <-l.cut:
				cancel()
			case <-ctx.Done():
			}
		}()
		c.cred, c.err = in.checkAuth(ctx, provider)
		l.settle(provider, c)
	})
	return c
}

// Close ends the checks under way and returns when no process of theirs is left;
// later ones fail. A check gets the grace to end by itself, because pi may be
// renewing a login, and one that is cut off there is lost. For the same reason a
// check is not bound to die with this process.
func (in *Install) Close(grace time.Duration) {
	l := &in.auth
	l.mu.Lock()
	already, cut := l.closed, l.cut
	l.closed = true
	l.mu.Unlock()
	if cut != nil && !already {
		defer time.AfterFunc(grace, func() { close(cut) }).Stop()
	}
	l.running.Wait()
}

func (l *ledger) usableLocked(c *check) bool {
	select {
	case <-c.done:
		return l.timeLocked().Sub(c.at) < readyFor
	default:
		return true
	}
}

func (l *ledger) settle(provider string, c *check) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.at = l.timeLocked()
	if c.err != nil && l.checks[provider] == c {
		delete(l.checks, provider)
	}
	close(c.done)
}

func (l *ledger) timeLocked() time.Time {
	if l.now != nil {
		return l.now()
	}
	return time.Now()
}

// checkAuth runs pi. No error carries its output, which may hold the key.
func (in *Install) checkAuth(ctx context.Context, provider string) (Credential, error) {
	args := append(in.Host[1:len(in.Host):len(in.Host)],
		"auth", "check", "--provider", provider, "--json", "--credentials")
	cmd := exec.CommandContext(ctx, in.Host[0], args...)
	cmd.WaitDelay = time.Second
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return Credential{}, fmt.Errorf("cannot ask pi about provider %q: %w", provider, errors.Join(err, ctx.Err()))
	}
	var answer struct{ Status, Reason, AuthType, Credentials string }
	if json.Unmarshal(out, &answer) != nil || answer.Status == "" {
		return Credential{}, fmt.Errorf("cannot ask pi about provider %q: `pi auth check` gave no answer%s", provider, stderr.quoted())
	}
	if answer.Status != "ready" {
		return Credential{}, &NotReadyError{provider, answer.Reason}
	}
	if answer.Credentials == "" {
		return Credential{}, &NotReadyError{provider, "credential_not_available"}
	}
	return Credential{Key: answer.Credentials, OAuth: answer.AuthType == "oauth"}, nil
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - 2048; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// quoted returns the text for the end of an error, or nothing.
func (t *tail) quoted() string {
	if text := strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?")); text != "" {
		return ": " + text
	}
	return ""
}
