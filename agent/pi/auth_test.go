package pi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pi-mcp/agent/pi"
)

const (
	readyKey   = `{"status":"ready","provider":"p","authType":"api_key","credentials":"k1"}`
	readyOAuth = `{"status":"ready","provider":"p","authType":"oauth","credentials":"token"}`
	notReady   = `{"status":"not_ready","provider":"p","reason":"credentials_not_configured"}`
)

// fake is a pi that answers `auth check` with a file.
type fake struct {
	*pi.Install
	t    *testing.T
	file string
}

func newFake(t *testing.T, answer string) fake {
	f := fake{t: t, file: binary(t, filepath.Join(dir(t), "bin/pi"), "1.6.0")}
	f.Install = find(t, pi.Config{Pi: f.file})
	f.answer(answer)
	return f
}

func (f fake) answer(text string) { write(f.t, f.file+".answer", text) }

func (f fake) calls() int {
	data, err := os.ReadFile(f.file + ".calls")
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "\n")
}

func (f fake) auth(want pi.Credential) {
	f.t.Helper()
	if got, err := f.Auth(f.t.Context(), "p"); got != want || err != nil {
		f.t.Errorf("Auth = %+v, %v; want %+v", got, err, want)
	}
}

func TestAuthKeepsReady(t *testing.T) {
	f := newFake(t, readyKey)
	now := time.Unix(1000, 0)
	f.SetClock(func() time.Time { return now })
	f.auth(pi.Credential{Key: "k1"})
	f.answer(readyOAuth)
	now = now.Add(5*time.Minute - 1)
	f.auth(pi.Credential{Key: "k1"})
	if n := f.calls(); n != 1 {
		t.Errorf("%d checks within five minutes", n)
	}
	now = now.Add(1)
	f.auth(pi.Credential{Key: "token", OAuth: true})

	if _, err := f.Auth(t.Context(), "other"); err != nil || f.calls() != 3 {
		t.Errorf("another provider: %v after %d checks, want a check of its own", err, f.calls())
	}
}

func TestAuthForgetsFailures(t *testing.T) {
	f := newFake(t, notReady)
	_, err := f.Auth(t.Context(), "p")
	var not *pi.NotReadyError
	if !errors.As(err, &not) || not.Provider != "p" || not.Reason != "credentials_not_configured" {
		t.Fatalf("error %v", err)
	}
	contains(t, err.Error(), "pi auth login p", "/login", "environment")

	f.answer("")
	_, err = f.Auth(t.Context(), "p")
	if errors.As(err, &not) || err == nil {
		t.Fatalf("error %v, want one that is not pi's answer", err)
	}
	contains(t, err.Error(), "gave no answer", "words on stderr")

	f.answer(readyKey)
	f.auth(pi.Credential{Key: "k1"})
}

func TestAuthIsShared(t *testing.T) {
	f := newFake(t, readyKey)
	gate := f.file + ".gate"
	must(t, syscall.Mkfifo(gate, 0o600))

	// The first caller gives up while pi is at it; its check goes on.
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := f.Auth(ctx, "p")
		first <- err
	}()
	w, err := os.OpenFile(gate, os.O_WRONLY, 0) // until pi waits at the gate
	must(t, err)
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller who gave up got %v", err)
	}

	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() { f.auth(pi.Credential{Key: "k1"}) })
	}
	must(t, w.Close())
	callers.Wait()
	if n := f.calls(); n != 1 {
		t.Errorf("%d checks for nine callers", n)
	}
}

func TestAuthNoProvider(t *testing.T) {
	var not *pi.NotReadyError
	if _, err := newFake(t, readyKey).Auth(t.Context(), ""); !errors.As(err, &not) {
		t.Errorf("error %v", err)
	}
}

// The real pi, with each place that it looks into.
func TestAuthReal(t *testing.T) {
	home := dir(t)
	t.Setenv("PI_CODING_AGENT_DIR", home)
	t.Setenv("PI_OFFLINE", "1")
	t.Setenv("DEEPSEEK_API_KEY", "from-env")
	t.Setenv("CUSTOM_KEY", "from-models")
	write(t, home+"/models.json", `{"providers":{"custom":{"baseUrl":"http://127.0.0.1:1","api":"openai-completions",
		"apiKey":"$CUSTOM_KEY","models":[{"id":"m"}]}}}`)
	write(t, home+"/auth.json", `{"openai-codex":{"type":"oauth","access":"tok","refresh":"r","expires":4102444800000}}`)
	in := realPi(t)
	for provider, want := range map[string]pi.Credential{
		"deepseek":     {Key: "from-env"},
		"custom":       {Key: "from-models"},
		"openai-codex": {Key: "tok", OAuth: true},
	} {
		if got, err := in.Auth(t.Context(), provider); got != want || err != nil {
			t.Errorf("Auth(%s) = %+v, %v; want %+v", provider, got, err, want)
		}
	}
	for provider, words := range map[string]string{"nobody": "--list-models", "groq": "pi auth login groq"} {
		var not *pi.NotReadyError
		_, err := in.Auth(t.Context(), provider)
		if !errors.As(err, &not) {
			t.Errorf("Auth(%s): %v", provider, err)
			continue
		}
		contains(t, err.Error(), words)
	}
	write(t, home+"/models.json", "{")
	if _, err := in.Auth(t.Context(), "mistral"); err == nil {
		t.Error("ready with a broken models.json")
	} else {
		contains(t, err.Error(), home, "models.json")
	}
}
