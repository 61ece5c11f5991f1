package agent

import (
	"time"

	"pi-mcp/artifacts"
	"pi-mcp/store"
)

// maxInfoText bounds last_assistant_text in an Info, in bytes.
const maxInfoText = 64 << 10

// stampFormat is RFC 3339 in UTC with milliseconds.
const stampFormat = "2006-01-02T15:04:05.000Z"

// An Info is everything there is to know about one agent, as clients see it.
type Info struct {
	AgentID     string  `json:"agent_id"`
	Name        string  `json:"name"`
	State       State   `json:"state" jsonschema:"active, idle, ripped or exited"`
	Provider    string  `json:"provider"`
	Model       string  `json:"model"`
	ContextSize *int64  `json:"context_size"`
	Thinking    *string `json:"thinking"`
	Mounts      Mounts  `json:"mounts"`
	// Not stored: they are about the file system as the start found it.
	Warnings  []string `json:"warnings" jsonschema:"what the mounts do not protect although one might think so; about the live process, empty without one"`
	Network   Network  `json:"network"`
	Cwd       string   `json:"cwd"`
	SessionID string   `json:"session_id"`
	PID       *int     `json:"pid" jsonschema:"the host's pid of the cage; null when no process is live"`

	CreatedAt      string `json:"created_at"`
	UpdatedAt      string `json:"updated_at"`
	LastActivityAt string `json:"last_activity_at"`

	Messages     Messages `json:"messages"`
	Tokens       Tokens   `json:"tokens"`
	Cost         float64  `json:"cost" jsonschema:"US dollars, as pi counts them"`
	SessionBytes int64    `json:"session_bytes"`
	Logs         Logs     `json:"logs"`
	QueueLength  int      `json:"queue_length"`
	SettleCount  int64    `json:"settle_count" jsonschema:"runs that ended so far"`
	Dialogs      Dialogs  `json:"dialogs"`

	LastError *string   `json:"last_error"`
	ExitCode  *int      `json:"exit_code"`
	Lifecycle Lifecycle `json:"lifecycle"`

	ParentAgentID   *string  `json:"parent_agent_id"`
	Depth           int      `json:"depth"`
	Children        []string `json:"children" jsonschema:"ids of the agents that it started and that are in its group"`
	CallbackAgentID *string  `json:"callback_agent_id"`
	Callback        Callback `json:"callback"`

	Artifacts Artifacts `json:"artifacts"`

	LastAssistantText      *string `json:"last_assistant_text"`
	LastAssistantTextBytes int64   `json:"last_assistant_text_bytes" jsonschema:"length of the whole text; the text here is cut at 65536 bytes"`
}

// An Entry is an agent in a list.
type Entry struct {
	AgentID       string    `json:"agent_id"`
	Name          string    `json:"name"`
	State         State     `json:"state"`
	Provider      string    `json:"provider"`
	Model         string    `json:"model"`
	ContextSize   *int64    `json:"context_size"`
	Lifecycle     Lifecycle `json:"lifecycle"`
	Messages      int64     `json:"messages"`
	Tokens        Tokens    `json:"tokens"`
	Cost          float64   `json:"cost"`
	Logs          Logs      `json:"logs"`
	SettleCount   int64     `json:"settle_count"`
	ParentAgentID *string   `json:"parent_agent_id"`
	Depth         int       `json:"depth"`
	Children      []string  `json:"children" jsonschema:"ids of the agents that it started and that you can see"`
	UpdatedAt     string    `json:"updated_at"`
}

// The parts of an Info and an Entry.
type (
	// Mounts are an agent's grants, as canonical host paths.
	Mounts struct {
		Write  []string `json:"write"`
		Read   []string `json:"read"`
		Denied []string `json:"denied"`
	}
	// Messages counts what pi has in the session.
	Messages struct {
		Total     int64 `json:"total"`
		User      int64 `json:"user"`
		Assistant int64 `json:"assistant"`
		ToolCalls int64 `json:"tool_calls"`
	}
	// Tokens counts what the provider reported.
	Tokens struct {
		Input      int64 `json:"input"`
		Output     int64 `json:"output"`
		CacheRead  int64 `json:"cache_read"`
		CacheWrite int64 `json:"cache_write"`
		Total      int64 `json:"total"`
	}
	// Logs are the sizes of the logs in bytes.
	Logs struct {
		StdoutBytes int64 `json:"stdout_bytes"`
		StderrBytes int64 `json:"stderr_bytes"`
	}
	// Dialogs are questions that pi asked and that were answered as cancelled.
	Dialogs struct {
		Cancelled int64   `json:"cancelled"`
		Last      *string `json:"last" jsonschema:"method and title of the last one"`
	}
	// Lifecycle counts what happened to the process.
	Lifecycle struct {
		Retries       int64   `json:"retries"`
		Rips          int64   `json:"rips"`
		SelfExits     int64   `json:"self_exits"`
		RippedAt      *string `json:"ripped_at"`
		ResurrectedAt *string `json:"resurrected_at"`
	}
	// Callback says whom the agent's ends are told to, and how far that has got.
	Callback struct {
		AgentID     *string `json:"agent_id"`
		SettleCount int64   `json:"settle_count" jsonschema:"with a callback_agent_id: number of the last end that there was to tell, be it of a run or of the process"`
		NotifiedSeq int64   `json:"notified_seq" jsonschema:"number of the last end that the other agent has in its session"`
		NotifiedAt  *string `json:"notified_at"`
		Error       *string `json:"error" jsonschema:"of the last attempt that failed; null once one succeeded"`
	}
	// Artifacts are host paths of what the agent leaves behind.
	Artifacts struct {
		Dir       string `json:"dir"`
		StdoutLog string `json:"stdout_log"`
		ErrorLog  string `json:"error_log"`
		Session   string `json:"session"`
		Tmp       string `json:"tmp"`
	}
)

// infoOf is row as clients see it. Paths are where its artifacts lie; live is
// the agent's process, nil when it has none here.
func infoOf(row *store.Agent, paths artifacts.Paths, live *liveAgent) Info {
	i := Info{
		AgentID: row.ID, Name: row.Name, State: State(row.State).Public(),
		Provider: row.Provider, Model: row.Model,
		ContextSize: positive(row.ContextSize), Thinking: filled(row.Thinking),
		Mounts:   Mounts{Write: list(row.Write), Read: list(row.Read), Denied: list(row.Denied)},
		Network:  Network{Policy: policyOf(row.Network).Strings(), BytesOut: row.BytesOut, BytesIn: row.BytesIn},
		Warnings: []string{}, Cwd: row.Cwd, SessionID: row.ID,
		CreatedAt: stamp(row.Created), UpdatedAt: stamp(row.Updated), LastActivityAt: stamp(row.LastActivity),
		Messages:     messages(row.Messages),
		Tokens:       Tokens(row.Tokens),
		Cost:         row.Cost,
		SessionBytes: row.SessionBytes,
		Logs:         Logs{row.StdoutBytes, row.StderrBytes},
		SettleCount:  row.SettleCount,
		Dialogs:      Dialogs{row.Dialogs, filled(row.LastDialog)},
		LastError:    row.LastError, ExitCode: row.ExitCode,
		Lifecycle:     lifecycle(row),
		ParentAgentID: filled(row.Parent), Depth: row.Depth,
		CallbackAgentID: filled(row.Callback),
		Callback:        Callback{AgentID: filled(row.Callback), SettleCount: row.SettleCount},
		Artifacts: Artifacts{Dir: paths.Dir, StdoutLog: paths.StdoutLog, ErrorLog: paths.ErrorLog,
			Session: paths.Session, Tmp: paths.Tmp},
		LastAssistantText: row.LastText, LastAssistantTextBytes: row.LastTextBytes,
	}
	if row.Living && row.PID != 0 {
		i.PID = &row.PID
	}
	if live != nil {
		i.Logs = live.logs()
		i.Warnings = list(live.warnings)
		i.Network = live.network(i.Network)
		i.QueueLength = int(live.queued.Load())
	}
	return i
}

// entryOf is row as it stands in a list.
func entryOf(row *store.Agent, live *liveAgent) Entry {
	e := Entry{
		AgentID: row.ID, Name: row.Name, State: State(row.State).Public(),
		Provider: row.Provider, Model: row.Model, ContextSize: positive(row.ContextSize),
		Lifecycle: lifecycle(row), Messages: row.Messages.User + row.Messages.Assistant,
		Tokens: Tokens(row.Tokens), Cost: row.Cost, Logs: Logs{row.StdoutBytes, row.StderrBytes},
		SettleCount: row.SettleCount, ParentAgentID: filled(row.Parent), Depth: row.Depth,
		UpdatedAt: stamp(row.Updated),
	}
	if live != nil {
		e.Logs = live.logs()
	}
	return e
}

func messages(m store.Messages) Messages {
	return Messages{Total: m.User + m.Assistant, User: m.User, Assistant: m.Assistant, ToolCalls: m.ToolCalls}
}

func lifecycle(row *store.Agent) Lifecycle {
	return Lifecycle{
		Retries: row.Retries, Rips: row.Rips, SelfExits: row.SelfExits,
		RippedAt: stampOrNil(row.RippedAt), ResurrectedAt: stampOrNil(row.ResurrectedAt),
	}
}

func stamp(t time.Time) string { return t.UTC().Format(stampFormat) }

func stampOrNil(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := stamp(*t)
	return &s
}

func filled(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
