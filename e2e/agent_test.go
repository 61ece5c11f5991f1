package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// info is what the tests look at in the results of run, get_info, rip and
// resurrect, under the names of the tool contract.
type info struct {
	ID          string `json:"agent_id"`
	Name        string `json:"name"`
	State       string `json:"state"`
	Provider    string `json:"provider"`
	Model       string `json:"model"`
	ContextSize *int64 `json:"context_size"`
	Mounts      struct {
		Write, Read, Denied []string
	} `json:"mounts"`
	Cwd       string `json:"cwd"`
	SessionID string `json:"session_id"`
	PID       *int   `json:"pid"`
	Messages  struct {
		Total, User, Assistant int64
		ToolCalls              int64 `json:"tool_calls"`
	} `json:"messages"`
	Tokens struct {
		Input, Output, Total int64
		CacheRead            int64 `json:"cache_read"`
		CacheWrite           int64 `json:"cache_write"`
	} `json:"tokens"`
	Cost        float64 `json:"cost"`
	QueueLength int     `json:"queue_length"`
	SettleCount int64   `json:"settle_count"`
	LastError   *string `json:"last_error"`
	ExitCode    *int    `json:"exit_code"`
	Lifecycle   struct {
		Retries, Rips int64
		SelfExits     int64 `json:"self_exits"`
	} `json:"lifecycle"`
	Network struct {
		Policy               []string
		Connections, Refused int64
		BytesOut             int64 `json:"bytes_out"`
		BytesIn              int64 `json:"bytes_in"`
	} `json:"network"`
	Parent   *string `json:"parent_agent_id"`
	Depth    int
	Children []string
	Callback struct {
		SettleCount int64 `json:"settle_count"`
		NotifiedSeq int64 `json:"notified_seq"`
		Error       *string
	}
	Artifacts struct{ Dir, Session, Tmp string } `json:"artifacts"`
	Text      *string                            `json:"last_assistant_text"`

	Ripped        bool   `json:"ripped"`
	AlreadyRipped bool   `json:"already_ripped"`
	Resurrected   bool   `json:"resurrected"`
	PromptSent    bool   `json:"prompt_sent"`
	Delivery      string `json:"delivery"`
	Disposition   string `json:"disposition"`
}

// text is the last answer, or nothing.
func (i info) text() string { return str(i.Text) }

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

type sent struct{ Delivery, Disposition, State string }

type listing struct {
	Count, Total int
	Agents       []struct {
		ID    string `json:"agent_id"`
		State string
	}
}

// run starts an agent. Without arguments it is one of the world's defaults.
func (c *client) run(args obj) info {
	c.t.Helper()
	i := call[info](c, "run", args)
	if i.State != "idle" && !i.PromptSent || i.PID == nil || !alive(*i.PID) {
		c.t.Fatalf("a new agent is %+v", i)
	}
	return i
}

func (c *client) send(id, message string) sent {
	c.t.Helper()
	return call[sent](c, "send_message", obj{"agent_id": id, "message": message})
}

func (c *client) info(id string) info {
	c.t.Helper()
	return call[info](c, "get_info", obj{"agent_id": id})
}

// ask sends a message to an idle agent and returns it once it has settled.
func (c *client) ask(id, message string) info {
	c.t.Helper()
	before := c.info(id).SettleCount
	if s := c.send(id, message); s != (sent{"hot_prompt", "started", "active"}) {
		c.t.Fatalf("a message to an idle agent is %+v", s)
	}
	return c.settled(id, before+1)
}

// until waits for an agent to be as ok wants it.
func (c *client) until(id, what string, ok func(info) bool) info {
	c.t.Helper()
	var last info
	eventually(c.t, func() bool { last = c.info(id); return ok(last) }, func() string {
		text, _ := json.MarshalIndent(last, "", "  ")
		return fmt.Sprintf("%s never came: %s", what, text)
	})
	return last
}

func (c *client) untilState(id, state string) info {
	c.t.Helper()
	return c.until(id, state, func(i info) bool { return i.State == state })
}

// settled waits until an agent is idle after so many settles.
func (c *client) settled(id string, n int64) info {
	c.t.Helper()
	return c.until(id, fmt.Sprintf("settle %d", n), func(i info) bool { return i.State == "idle" && i.SettleCount >= n })
}

// arrives waits for a file in an agent's /tmp.
func (c *client) arrives(i info, name string) string {
	c.t.Helper()
	path := filepath.Join(i.Artifacts.Tmp, name)
	eventually(c.t, func() bool { _, err := os.Stat(path); return err == nil },
		func() string { return fmt.Sprintf("%s never came: %+v", name, c.info(i.ID)) })
	return path
}

// let makes a file in an agent's /tmp that something in the cage waits for.
func (c *client) let(i info, name string) {
	c.t.Helper()
	must(c.t, os.WriteFile(filepath.Join(i.Artifacts.Tmp, name), nil, 0o644))
}

// none fails the test when the client sees an agent.
func (c *client) none() {
	c.t.Helper()
	if l := call[listing](c, "list", nil); l.Count != 0 || l.Total != 0 {
		c.t.Errorf("agents are left: %+v", l)
	}
}
