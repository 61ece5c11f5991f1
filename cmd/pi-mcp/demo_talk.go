package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// say names a step, tell says what came of it. People see both at once.
func say(format string, v ...any)  { fmt.Fprintf(os.Stdout, "* "+format+"\n", v...) }
func tell(format string, v ...any) { fmt.Fprintf(os.Stdout, "    "+format+"\n", v...) }

// randomWord is a word that no script can know beforehand.
func randomWord() string { return "w" + rand.Text()[:10] }

// call calls a tool on the stage's agent and reads the result into out, unless
// that is nil. A tool's error is an error.
func (s *stage) call(ctx context.Context, tool string, args map[string]any, out any) error {
	all := map[string]any{}
	if s.agent != "" {
		all["agent_id"] = s.agent
	}
	for k, v := range args {
		all[k] = v
	}
	res, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: all})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return fmt.Errorf("%s: %s", tool, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal([]byte(text), out)
}

// idle waits until the agent has settled so many times and returns its answer.
func (s *stage) idle(ctx context.Context, settles int) (string, error) {
	var info struct {
		State       string
		SettleCount int     `json:"settle_count"`
		LastError   *string `json:"last_error"`
		Text        string  `json:"last_assistant_text"`
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.call(ctx, "get_info", nil, &info); err != nil {
			return "", err
		}
		switch {
		case info.LastError != nil:
			return "", errors.New("the agent failed: " + *info.LastError)
		case info.State == "exited", info.State == "ripped":
			return "", errors.New("the agent is " + info.State)
		case info.State == "idle" && info.SettleCount >= settles:
			return info.Text, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
