package pi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"
)

// FilesConfig says what an agent's pi directory is to hold.
type FilesConfig struct {
	// HostDir is where the host's models.json is. Zero: the host defines no
	// providers of its own.
	HostDir string
	// Provider and Model are required. Model should be the exact id: pi also
	// takes patterns, but ContextSize then finds no model to apply to.
	Provider, Model string
	// Key and OAuth are the fields of the Credential. Zero: no credential.
	Key   string
	OAuth bool
	// ContextSize is the number of tokens after which pi compacts. Zero: what
	// pi does by itself.
	ContextSize int64
	// MCP is the server that the agent may call. Nil: none.
	MCP *MCP
	// Told is added to pi's system prompt. Zero: nothing.
	Told string
}

// MCP is the endpoint of one agent.
type MCP struct {
	URL, Token string
	// Timeout of one call, rounded up to seconds. Zero: pi's own, 60 s.
	Timeout time.Duration
}

// farOff is the expiry of an access token in milliseconds: the year 2100. With
// a true one pi would try to renew the token in the cage, where nothing to
// renew it with exists.
const farOff = 4102444800000

// HostDir is the agent directory of the host's pi: $PI_CODING_AGENT_DIR, or
// ~/.pi/agent.
func HostDir() string {
	home, err := os.UserHomeDir()
	if err != nil { // pi asks the passwd file too
		if u, err := user.Current(); err == nil {
			home = u.HomeDir
		}
	}
	dir := os.Getenv("PI_CODING_AGENT_DIR")
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(home, rest)
	}
	if dir != "" {
		return dir
	}
	return filepath.Join(home, ".pi", "agent")
}

// Files returns the contents of an agent's pi directory by name. They hold the
// credential and the token, so they belong into files that nobody else reads.
//
// Of the host's models.json only the definition of Provider is taken, without
// its apiKey: the credential is in auth.json, as it is, with nothing in it that
// pi would expand. Headers of the provider and the model are taken if they are
// plain text. One that refers to the host's environment or to a command is an
// error: in the cage it could not be resolved, and resolving it here would hand
// an agent something that is not in any file made for it. Headers of other
// models are left out.
func Files(c FilesConfig) (map[string][]byte, error) {
	models, err := modelsFile(c)
	if err != nil {
		return nil, err
	}
	contents := map[string]any{
		"auth.json":     authFile(c),
		"models.json":   models,
		"settings.json": settingsFile(c),
	}
	if c.MCP != nil {
		contents["mcp.json"] = mcpFile(*c.MCP)
	}
	files := make(map[string][]byte, len(contents))
	for name, content := range contents {
		if files[name], err = encode(content); err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", name, err)
		}
	}
	if c.Told != "" {
		files["APPEND_SYSTEM.md"] = []byte(c.Told)
	}
	return files, nil
}

func encode(content any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(content)
	return b.Bytes(), err
}

type object = map[string]any

func authFile(c FilesConfig) object {
	switch {
	case c.Key == "":
		return object{}
	case c.OAuth: // pi takes the token of a login as it is
		return object{c.Provider: object{"type": "oauth", "access": c.Key, "refresh": "", "expires": farOff}}
	}
	return object{c.Provider: object{"type": "api_key", "key": literal(c.Key)}}
}

func settingsFile(c FilesConfig) object {
	settings := object{
		"cacheWarming":           "off", // "idle" pays for agents that do nothing
		"defaultProjectTrust":    "never",
		"enableInstallTelemetry": false,
	}
	if c.ContextSize > 0 {
		settings["compaction"] = object{
			"enabled":          true,
			"reserveTokens":    headroom(c.ContextSize),
			"keepRecentTokens": c.ContextSize / 10,
		}
	}
	return settings
}

// headroom is what the context window has beyond the context size: pi compacts
// when less than this is free, and answers and summaries go there.
func headroom(size int64) int64 { return max(size/10, 10000) }

// Window is the context window that pi shows, in get_state, for a model to which
// a ContextSize has been applied, both in tokens.
func Window(size int64) int64 { return size + headroom(size) }

func mcpFile(m MCP) object {
	server := object{
		"url":      m.URL,
		"headers":  object{"Authorization": literal("Bearer " + m.Token)},
		"exposure": "direct", // the default shows the model none of the tools
	}
	if m.Timeout > 0 {
		server["timeout"] = int64((m.Timeout + time.Second - 1) / time.Second)
	}
	return object{"mcpServers": object{"pi-mcp": server}}
}

// BaseURL returns the address that the host's models.json gives for the model, and
// "" for one that pi itself knows. files are what Files returned.
func BaseURL(files map[string][]byte, provider, model string) string {
	var content struct {
		Providers map[string]struct {
			BaseURL string
			Models  []struct{ ID, BaseURL string }
		}
	}
	if json.Unmarshal(files["models.json"], &content) != nil {
		return ""
	}
	def := content.Providers[provider]
	for _, m := range def.Models {
		if m.ID == model && m.BaseURL != "" {
			return m.BaseURL
		}
	}
	return def.BaseURL
}
