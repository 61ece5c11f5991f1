package pi_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent/pi"
)

// files runs Files with a models.json of the host.
func files(t *testing.T, c pi.FilesConfig, models string) map[string][]byte {
	t.Helper()
	c.HostDir = hostDir(t, models)
	got, err := pi.Files(c)
	must(t, err)
	return got
}

func hostDir(t *testing.T, models string) string {
	t.Helper()
	home := dir(t)
	if models != "" {
		write(t, home+"/models.json", models)
	}
	return home
}

func same(t *testing.T, got []byte, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	must(t, json.Unmarshal([]byte(want), &w))
	if diff := cmp.Diff(w, g); diff != "" {
		t.Error(diff)
	}
}

func TestFilesPlain(t *testing.T) {
	got := files(t, pi.FilesConfig{Provider: "deepseek", Model: "deepseek-flash", Key: "k"}, "")
	same(t, got["auth.json"], `{"deepseek":{"type":"api_key","key":"k"}}`)
	same(t, got["models.json"], `{"providers":{}}`)
	same(t, got["settings.json"], `{"cacheWarming":"off","defaultProjectTrust":"never","enableInstallTelemetry":false}`)
	if len(got) != 3 {
		t.Errorf("%d files without MCP", len(got))
	}
}

func TestFilesLogin(t *testing.T) {
	got := files(t, pi.FilesConfig{Provider: "p", Model: "m", Key: "!a$b", OAuth: true}, "")
	same(t, got["auth.json"], `{"p":{"type":"oauth","access":"!a$b","refresh":"","expires":4102444800000}}`)
	same(t, files(t, pi.FilesConfig{Provider: "p", Model: "m"}, "")["auth.json"], `{}`)
}

func TestFilesContextSize(t *testing.T) {
	for _, test := range []struct {
		size, window, reserve, keep int64
	}{
		{20000, 30000, 10000, 2000},
		{50001, 60001, 10000, 5000},
		{100009, 110009, 10000, 10000},
		{500000, 550000, 50000, 50000},
	} {
		got := files(t, pi.FilesConfig{Provider: "p", Model: "m", ContextSize: test.size}, "")
		var models struct {
			Providers map[string]struct {
				ModelOverrides map[string]struct{ ContextWindow int64 }
			}
		}
		must(t, json.Unmarshal(got["models.json"], &models))
		if w := models.Providers["p"].ModelOverrides["m"].ContextWindow; w != test.window {
			t.Errorf("size %d: window %d, want %d", test.size, w, test.window)
		}
		var settings struct {
			Compaction struct {
				Enabled                         bool
				ReserveTokens, KeepRecentTokens int64
			}
		}
		must(t, json.Unmarshal(got["settings.json"], &settings))
		if c := settings.Compaction; !c.Enabled || c.ReserveTokens != test.reserve || c.KeepRecentTokens != test.keep {
			t.Errorf("size %d: compaction %+v", test.size, c)
		}
	}
}

func TestFilesMCP(t *testing.T) {
	mcp := &pi.MCP{URL: "http://127.0.0.1:1/mcp", Token: "a$b", Timeout: 3600*time.Second + 1}
	got := files(t, pi.FilesConfig{Provider: "p", Model: "m", MCP: mcp}, "")
	same(t, got["mcp.json"], `{"mcpServers":{"pi-mcp":{"url":"http://127.0.0.1:1/mcp",
		"headers":{"Authorization":"Bearer a$$b"},"exposure":"direct","timeout":3601}}}`)
}

// models.json as people write it: a byte order mark, comments, trailing commas.
const ownModels = "\ufeff" + `{
  // my own "machine"
  "providers": {
    "mine": {
      "baseUrl": "http://localhost:1/v1", // not a // comment in a string
      "api": "openai-completions",
      "apiKey": "!pass show mine",
      "headers": {"X-Team": "a $$5 team", "X-Odd": "${not a name} $",},
      "models": [
        {"id": "m", "contextWindow": 1000, "cost": {"input": 0.10, "output": 1, "cacheRead": 0, "cacheWrite": 0}, "headers": {"X-M": "1"}},
        {"id": "n", "contextWindow": 2000, "headers": {"X-N": "$SECRET"}},
      ],
      "modelOverrides": {"m": {"contextWindow": 3000}, "o": {"headers": {"X-O": "!id"}}},
    },
    "other": {"apiKey": "sk-other", "baseUrl": "http://other"},
  },
}
`

func TestFilesOwnProvider(t *testing.T) {
	got := files(t, pi.FilesConfig{Provider: "mine", Model: "m", Key: "k", ContextSize: 50000}, ownModels)
	same(t, got["models.json"], `{"providers":{"mine":{
		"baseUrl":"http://localhost:1/v1","api":"openai-completions",
		"headers":{"X-Team":"a $$5 team","X-Odd":"${not a name} $"},
		"models":[
			{"id":"m","contextWindow":60000,"cost":{"input":0.10,"output":1,"cacheRead":0,"cacheWrite":0},"headers":{"X-M":"1"}},
			{"id":"n","contextWindow":2000}],
		"modelOverrides":{"m":{"contextWindow":60000},"o":{}}}}}`)
	for name, text := range got {
		for _, secret := range []string{"sk-other", "pass show", "SECRET"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s holds %q", name, secret)
			}
		}
	}

	got = files(t, pi.FilesConfig{Provider: "mine", Model: "m", Key: "k"}, ownModels)
	contains(t, string(got["models.json"]), `"contextWindow": 1000`, `"contextWindow": 3000`, "0.10")
	same(t, files(t, pi.FilesConfig{Provider: "third", Model: "m"}, ownModels)["models.json"], `{"providers":{}}`)
}

// A definition with nothing but a key would be an error for pi without the key.
func TestFilesKeyOnly(t *testing.T) {
	got := files(t, pi.FilesConfig{Provider: "groq", Model: "m"}, `{"providers":{"groq":{"name":"G","apiKey":"sk-host"}}}`)
	same(t, got["models.json"], `{"providers":{}}`)
}

func TestFilesHeaderReferences(t *testing.T) {
	provider := func(headers string) string {
		return `{"providers":{"p":{"baseUrl":"http://h","headers":` + headers + `}}}`
	}
	for _, value := range []string{"!cmd", "$HOME", "a${B}c", "$$$A", "${}$_x", "${ $A"} {
		text, err := json.Marshal(map[string]string{"X-Key": value})
		must(t, err)
		home := hostDir(t, provider(string(text)))
		_, err = pi.Files(pi.FilesConfig{HostDir: home, Provider: "p", Model: "m"})
		if err == nil {
			t.Errorf("%q was taken", value)
			continue
		}
		contains(t, err.Error(), `"X-Key"`, home+"/models.json", "write the value itself")
	}
	for _, value := range []string{"a!b", "$$HOME", "$!x", "$5", "${", "${A-B}", "$", ""} {
		text, err := json.Marshal(map[string]string{"X-Key": value})
		must(t, err)
		files(t, pi.FilesConfig{Provider: "p", Model: "m"}, provider(string(text)))
	}
	// The selected model's own headers count too.
	for _, def := range []string{
		`{"models":[{"id":"m","headers":{"X":"$A"}}]}`,
		`{"modelOverrides":{"m":{"headers":{"X":"$A"}}}}`,
	} {
		home := hostDir(t, `{"providers":{"p":`+def+`}}`)
		if _, err := pi.Files(pi.FilesConfig{HostDir: home, Provider: "p", Model: "m"}); err == nil {
			t.Errorf("%s was taken", def)
		}
	}
}

func TestFilesBadModels(t *testing.T) {
	for _, models := range []string{
		`{`, `[]`, `{"providers":[]}`, `{"providers":{"p":{"models":{}}}}`, `{"providers":{"p":{"models":[null]}}}`,
		`{"providers":{"p":{"models":[{"id":1}]}}}`, `{"providers":{"p":{"headers":{"X":1}}}}`,
		`{"providers":{"p":{"modelOverrides":[]}}}`,
	} {
		home := hostDir(t, models)
		_, err := pi.Files(pi.FilesConfig{HostDir: home, Provider: "p", Model: "m", ContextSize: 50000})
		if err == nil {
			t.Errorf("%s was taken", models)
			continue
		}
		contains(t, err.Error(), home+"/models.json")
	}
	files(t, pi.FilesConfig{Provider: "p", Model: "m", ContextSize: 50000}, `{"providers":{"p":null}}`)
	files(t, pi.FilesConfig{Provider: "p", Model: "m", ContextSize: 50000}, `{"providers":{"p":{"modelOverrides":{"m":null}}}}`)
	files(t, pi.FilesConfig{Provider: "p", Model: "m", ContextSize: 50000}, `{"providers":{"p":{"modelOverrides":null}}}`)
}

func TestHostDir(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	for env, want := range map[string]string{
		"": "/home/u/.pi/agent", "/x/y": "/x/y", "~": "/home/u", "~/z": "/home/u/z", "~z": "~z",
	} {
		t.Setenv("PI_CODING_AGENT_DIR", env)
		if got := pi.HostDir(); got != want {
			t.Errorf("%q: %s, want %s", env, got, want)
		}
	}
	t.Setenv("PI_CODING_AGENT_DIR", "")
	must(t, os.Unsetenv("HOME"))
	if got := pi.HostDir(); !strings.HasPrefix(got, "/") {
		t.Errorf("%s without HOME", got)
	}
}

func FuzzFilesModels(f *testing.F) {
	f.Add(ownModels)
	f.Add(`{"providers":{"mine":{"models":[{"id":"m"}]}}}`)
	f.Fuzz(func(t *testing.T, models string) {
		c := pi.FilesConfig{HostDir: hostDir(t, models), Provider: "mine", Model: "m", ContextSize: 50000}
		got, err := pi.Files(c)
		if err == nil && !json.Valid(got["models.json"]) {
			t.Errorf("made %s", got["models.json"])
		}
	})
}
