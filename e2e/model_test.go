package e2e

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"pi-mcp/scripted"
)

// A model is what real pis talk to. It does what the last message of the user
// says:
//
//	bash: COMMAND    runs the command with pi's bash tool and repeats what it printed
//	hold: NAME       answers after release(NAME)
//	fail: REASON     the provider answers with HTTP 400, which pi does not try again
//	recall           tells the word of the first message with "remember: WORD" in it
//	call: TOOL JSON  calls any tool with the arguments of a JSON object
//	steps: ...       several of bash and call, one after the other; see steps
//
// Any other message is repeated. Every answer costs usage, unless cost says
// otherwise.
type model struct {
	*scripted.Server
	cost  func(scripted.Request) scripted.Usage      // set before the first request
	react func(scripted.Request) []scripted.ToolCall // what it calls before it does as it is told; may be nil

	mu    sync.Mutex // protects gates
	gates map[string]chan struct{}
}

// usage is what one answer costs: 149 millionths of a dollar.
var usage = scripted.Usage{Input: 100, Output: 10, CacheRead: 40, CacheWrite: 20}

func newModel(t testing.TB) *model {
	t.Helper()
	m := &model{gates: map[string]chan struct{}{}, cost: func(scripted.Request) scripted.Usage { return usage }}
	m.Server = scripted.New(scripted.Config{Script: m.reply})
	must(t, m.Serve())
	t.Cleanup(func() { m.Close() })
	return m
}

func (m *model) reply(r scripted.Request) scripted.Reply {
	reply := m.answer(r)
	reply.Usage = m.cost(r)
	return reply
}

func (m *model) answer(r scripted.Request) scripted.Reply {
	if r.IsCompaction() {
		return scripted.Reply{Text: "They spoke of little."}
	}
	if m.react != nil {
		if calls := m.react(r); calls != nil {
			return scripted.Reply{ToolCalls: calls}
		}
	}
	if calls := step(r); calls != nil {
		return scripted.Reply{ToolCalls: calls}
	}
	if printed, ok := r.ToolResult(); ok {
		return scripted.Reply{Text: "It printed: " + printed}
	}
	verb, rest, _ := strings.Cut(r.Last(), ": ")
	switch verb {
	case "hold":
		return scripted.Reply{Text: "I held " + rest, Delay: m.gate(rest)}
	case "fail":
		return scripted.Reply{Text: rest, Status: 400}
	case "recall":
		return scripted.Reply{Text: "The word was " + word(r)}
	}
	return scripted.Reply{Text: "You said: " + r.Last()}
}

func word(r scripted.Request) string {
	for _, m := range r.Messages {
		if _, w, ok := strings.Cut(m.Text, "remember: "); ok && m.Role == "user" {
			return w
		}
	}
	return "not told"
}

func (m *model) gate(name string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gates[name] == nil {
		m.gates[name] = make(chan struct{})
	}
	return m.gates[name]
}

func (m *model) release(name string) { close(m.gate(name)) }

// held waits until the model was asked to hold.
func (m *model) held(t testing.TB, name string) {
	t.Helper()
	eventually(t, func() bool {
		all := m.Requests()
		return len(all) > 0 && all[len(all)-1].Last() == "hold: "+name
	}, func() string { return "the model was never asked to hold " + name })
}

// said are the messages of the user in the latest request.
func (m *model) said() (all []string) {
	requests := m.Requests()
	for _, msg := range requests[len(requests)-1].Messages {
		if msg.Role == "user" {
			all = append(all, msg.Text)
		}
	}
	return all
}

// newReal makes a world with the real pi, whose only provider is a model.
func newReal(t testing.TB, env ...string) (*world, *model) {
	t.Helper()
	pi := realPi(t)
	m := newModel(t)
	w := newWorld(t, append([]string{
		"PI_MCP_PI=" + pi, "PI_MCP_PROVIDER=" + scripted.Provider, "PI_MCP_MODEL=" + scripted.Model,
	}, env...)...)
	w.hostPi("models.json", string(m.Models()))
	w.hostPi("auth.json", logins(map[string]string{scripted.Provider: secret()}))
	return w, m
}

// hostPi writes a file of pi's own directory on the host.
func (w *world) hostPi(name, text string) {
	w.t.Helper()
	must(w.t, os.WriteFile(w.path("host-pi", name), []byte(text), 0o600))
}

// logins is an auth.json with keys by provider.
func logins(keys map[string]string) string {
	all := obj{}
	for provider, key := range keys {
		all[provider] = obj{"type": "api_key", "key": key}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// secret is a word that is nowhere else.
func secret() string { return "sk-" + rand.Text() }
