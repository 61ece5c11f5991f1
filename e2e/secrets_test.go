package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pi-mcp/scripted"
)

// twoProviders puts a second provider into pi's settings on the host, and returns
// the keys of both. A third is defined there but has no key.
func twoProviders(t *testing.T, w *world, m *model) (key, other string) {
	t.Helper()
	var file struct {
		Providers map[string]json.RawMessage `json:"providers"`
	}
	must(t, json.Unmarshal(m.Models(), &file))
	file.Providers["elsewhere"] = file.Providers[scripted.Provider]
	file.Providers["locked"] = file.Providers[scripted.Provider]
	text, err := json.Marshal(file)
	must(t, err)
	w.hostPi("models.json", string(text))
	key, other = secret(), secret()
	w.hostPi("auth.json", logins(map[string]string{scripted.Provider: key, "elsewhere": other}))
	return key, other
}

// An agent gets the definition and the key of its own provider, in files that
// nobody else can read, and nothing else of pi's settings on the host.
func TestCredentials(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	key, other := twoProviders(t, w, m)
	c := w.client()
	a := c.run(nil)
	if got := filesWith(t, a.Artifacts.Dir, key); !slices.Equal(got, []string{"pi/auth.json"}) {
		t.Errorf("the key is in %v", got)
	}
	if got := filesWith(t, a.Artifacts.Dir, other); len(got) > 0 {
		t.Errorf("another provider's key is in %v", got)
	}
	for _, name := range []string{"elsewhere", "locked"} {
		if got := filesWith(t, filepath.Join(a.Artifacts.Dir, "pi"), name); len(got) > 0 {
			t.Errorf("provider %s is in %v", name, got)
		}
	}
	checkPrivate(t, filepath.Join(a.Artifacts.Dir, "pi"))
	c.ask(a.ID, "hello")
	if got := m.Requests()[0].Key; got != key { // the control: it is the key that is used
		t.Errorf("the provider was asked with key %q", got)
	}
	b := c.run(obj{"provider": "elsewhere"})
	if got := filesWith(t, b.Artifacts.Dir, other); !slices.Equal(got, []string{"pi/auth.json"}) {
		t.Errorf("the other key is in %v of its own agent", got)
	}
}

func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	files := 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err == nil && i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, i.Mode())
		}
		if d.Type().IsRegular() {
			files++
		}
		return err
	}))
	if files < 3 {
		t.Errorf("%s has %d files", dir, files)
	}
}

// Without credentials there is no agent, only words that say what to do.
func TestNoCredentials(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	twoProviders(t, w, m)
	c := w.client()
	has(t, "a provider without a key", c.refused("run", obj{"provider": "locked"}), "locked", "pi auth login locked")
	has(t, "an unknown provider", c.refused("run", obj{"provider": "unheard-of"}), "unheard-of", "pi --list-models")
	c.none()
	w.untouched()
	w.hostPi("auth.json", logins(map[string]string{"locked": secret()}))
	c.run(obj{"provider": "locked"}) // the control: a login is seen at once
}

// A provider key, a secret of the server's environment and the token of an agent's
// endpoint are nowhere to be read: in no command line and no environment on the host or in the cage, in no log, no
// database and no result.
func TestF32Secrets(t *testing.T) {
	t.Parallel()
	decoy := secret()
	w, m := newReal(t, "MY_API_KEY="+decoy, "PI_MCP_ACCESS_TOKEN="+secret())
	key, other := twoProviders(t, w, m)
	look := newLookout(key, other, decoy)
	c := w.client("PI_MCP_LOG_LEVEL=debug")
	a := c.run(nil)
	token := w.token(a.ID)
	used := newLookout(token)
	has(t, "the control: the token is used", c.ask(a.ID, callTool("list", obj{})).text(), a.ID)
	c.send(a.ID, "bash: cat /proc/*/environ /proc/*/cmdline > /tmp/proc.txt; env >> /tmp/proc.txt; "+
		"touch /tmp/looked; until [ -e /tmp/go ]; do sleep 0.02; done; tr '\\0' '\\n' < /tmp/proc.txt")
	c.arrives(a, "looked")
	seen := look.end()
	if !slices.Contains(seen, decoy) {
		t.Error("the control: the decoy is not in the server's environment")
	}
	if slices.Contains(seen, key) || slices.Contains(seen, other) || len(used.end()) > 0 {
		t.Error("a key or a token is in a command line or an environment on the host")
	}
	c.let(a, "go")
	answer := c.settled(a.ID, 2).text()
	has(t, "the control: what the agent sees", answer, "AGENT_ID="+a.ID, "cage-init")
	inside, err := os.ReadFile(filepath.Join(a.Artifacts.Tmp, "proc.txt"))
	must(t, err)
	call[obj](c, "read", obj{"agent_id": a.ID, "max_bytes": 4 << 20})
	call[obj](c, "read_tmp", obj{"agent_id": a.ID, "path": "proc.txt", "max_bytes": 1 << 20})
	call[obj](c, "rip", obj{"agent_id": a.ID})
	for what, text := range map[string]string{"the cage": string(inside), "a result": c.results.String(), "stderr": c.stderr.String()} {
		for name, word := range map[string]string{"the key": key, "the other key": other, "the decoy": decoy, "the token": token} {
			if strings.Contains(text, word) {
				t.Errorf("%s is in %s", name, what)
			}
		}
	}
	if strings.Contains(string(inside), "PI_MCP_") {
		t.Error("the server's settings are in the cage")
	}
	checkFiles(t, w, a, key, other, decoy)
	if got := filesWith(t, w.dir, token); !slices.Equal(got, []string{"agents/" + a.ID + "/pi/mcp.json"}) {
		t.Errorf("the token is in %v", got)
	}
}

// checkFiles looks for secrets in all that the server and the agent wrote.
func checkFiles(t *testing.T, w *world, a info, key, other, decoy string) {
	t.Helper()
	if got := filesWith(t, w.dir, key); !slices.Equal(got, []string{"agents/" + a.ID + "/pi/auth.json", "host-pi/auth.json"}) {
		t.Errorf("the key is in %v", got)
	}
	if got := filesWith(t, w.dir, other); !slices.Equal(got, []string{"host-pi/auth.json"}) {
		t.Errorf("the other key is in %v", got)
	}
	if got := filesWith(t, w.dir, decoy); len(got) > 0 {
		t.Errorf("the decoy is in %v", got)
	}
	if got := filesWith(t, w.path("state"), a.ID); len(got) == 0 {
		t.Error("the control: the database does not have the agent's id")
	}
}
