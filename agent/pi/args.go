package pi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ThinkingLevels are the levels that pi knows, least first (`pi --help`).
func ThinkingLevels() []string {
	return []string{"off", "minimal", "low", "medium", "high", "xhigh", "max"}
}

// Args returns the arguments that follow Host or Caged for an agent whose
// session is at /agent_session.jsonl. Thinking may be "". The error says which
// of the three cannot be given to pi.
func Args(provider, model, thinking string) ([]string, error) {
	for name, value := range map[string]string{"provider": provider, "model": model} {
		if value == "" || strings.HasPrefix(value, "-") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("%s: %q cannot be the name of a %s", name, value, name)
		}
	}
	args := []string{
		"--mode", "rpc",
		"--provider", provider, "--model", model,
		"--session", "/agent_session.jsonl",
		"--no-approve", "--no-skills",
	}
	if thinking == "" {
		return args, nil
	}
	if levels := ThinkingLevels(); !slices.Contains(levels, thinking) {
		return nil, fmt.Errorf("thinking: %q is not a level; use one of %s", thinking, strings.Join(levels, ", "))
	}
	return append(args, "--thinking", thinking), nil
}

// SessionHeader is the first line of a session file (session-format.md, version
// 3). pi takes such a file over, so that the session has the id of the agent.
func SessionHeader(id, cwd string, at time.Time) []byte {
	line, err := json.Marshal(struct {
		Type      string `json:"type"`
		Version   int    `json:"version"`
		ID        string `json:"id"`
		Timestamp string `json:"timestamp"`
		Cwd       string `json:"cwd"`
	}{"session", 3, id, at.UTC().Format("2006-01-02T15:04:05.000Z"), cwd})
	if err != nil {
		panic(err) // five plain values
	}
	return append(line, '\n')
}

// Warm returns the argv that, run once in a cage, fills Node.js's compile cache
// for the later starts of agents, or nil for a pi that has no such cache. pi
// starts, finds its stdin at the end and exits 0: no agent's code runs.
//
// NODE_COMPILE_CACHE names the directory, which must be writable then and
// read-only for every agent. The cage must otherwise be like that of an agent:
// the same Mounts (the cache goes by the modules' paths) and the same uid
// inside. One directory serves one Key; a cache that does not fit is passed
// over. PI_CODING_AGENT_DIR must name an empty writable directory, PI_OFFLINE
// must be 1, and stdin /dev/null.
func (in *Install) Warm() []string {
	if len(in.Caged) < 2 {
		return nil
	}
	return append(slices.Clone(in.Caged), "--mode", "rpc", "--no-session", "--no-approve", "--no-skills")
}
