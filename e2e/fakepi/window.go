package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// defaultWindow is the context window of a model that nothing is said of, in
// tokens.
const defaultWindow = 128000

// window is the context window of the model: pi's own, unless the models.json in
// its directory overrides it.
func (o options) window() int {
	text, err := os.ReadFile(filepath.Join(os.Getenv("PI_CODING_AGENT_DIR"), "models.json"))
	if err != nil {
		return defaultWindow
	}
	var file struct {
		Providers map[string]struct {
			ModelOverrides map[string]struct{ ContextWindow int }
		}
	}
	if json.Unmarshal(text, &file) != nil {
		return defaultWindow
	}
	if n := file.Providers[o.provider].ModelOverrides[o.model].ContextWindow; n > 0 {
		return n
	}
	return defaultWindow
}
