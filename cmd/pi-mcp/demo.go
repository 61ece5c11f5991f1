package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/urfave/cli/v3"

	"pi-mcp/cage/cgroup"
	"pi-mcp/scripted"
)

// demo shows the main job from end to end: this program as a server over stdio,
// a real pi in a real cage, and a model that follows a script.
func demo(ctx context.Context, cmd *cli.Command) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "pi-mcp-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage := newStage(dir)
	model := scripted.New(scripted.Config{Script: stage.answer})
	if err := model.Serve(); err != nil {
		return err
	}
	defer model.Close()
	if err := stage.furnish(model); err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "pi-mcp demo", Version: version}, nil)
	server, err := stage.server(cmd)
	if err != nil {
		return err
	}
	say("start the server over stdio")
	stage.session, err = client.Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.session.Close()) }()
	if err := stage.play(ctx); err != nil {
		return err
	}
	say("done")
	return nil
}

// A stage is where the demo plays: a project directory, a pi set up for the
// scripted model, and the client's session.
type stage struct {
	dir, project, word string
	session            *mcp.ClientSession
	agent              string
}

func newStage(dir string) *stage {
	return &stage{dir: dir, project: filepath.Join(dir, "project"), word: randomWord()}
}

// furnish makes the directories and tells pi of the scripted model.
func (s *stage) furnish(model *scripted.Server) error {
	pi := filepath.Join(s.dir, "pi")
	for _, d := range []string{s.project, pi} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(pi, "models.json"), model.Models(), 0o600); err != nil {
		return err
	}
	const key = `{"scripted":{"type":"api_key","key":"no-secret"}}`
	return os.WriteFile(filepath.Join(pi, "auth.json"), []byte(key), 0o600)
}

// server is this program again, serving, with its state in the stage's directory.
func (s *stage) server(cmd *cli.Command) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "--db", filepath.Join(s.dir, "state", "pi-mcp.sqlite3"),
		"--agents-dir", filepath.Join(s.dir, "agents"),
		"--provider", scripted.Provider, "--model", scripted.Model,
		"--pi", cmd.String("pi"), "--node", cmd.String("node"), "--bwrap", cmd.String("bwrap"))
	if uncounted() {
		tell("root has no control group here that counts processes: the demo does without that limit")
		c.Args = append(c.Args, "--max-processes", "none")
	}
	c.Env = append(os.Environ(), "PI_CODING_AGENT_DIR="+filepath.Join(s.dir, "pi"))
	c.Stderr = os.Stderr
	return c, nil
}

// uncounted reports whether a server would refuse to start agents here for want of a
// control group, which is what counts root's processes.
func uncounted() bool {
	if os.Geteuid() != 0 {
		return false
	}
	control, err := cgroup.Detect()
	if err != nil {
		return true
	}
	_, lacks := control.Trim(cgroup.Limits{Processes: 1})
	return len(lacks) > 0
}

// answer is the model. It asks for one tool call in the first turn; in the last
// it can only know the word from the first turn's messages.
func (s *stage) answer(r scripted.Request) scripted.Reply {
	if _, ok := r.ToolResult(); ok {
		return scripted.Reply{Text: "I wrote hello.txt."}
	}
	if strings.Contains(r.Last(), "Which word") {
		for _, m := range r.Messages {
			if _, word, ok := strings.Cut(m.Text, "The word is "); ok && m.Role == "user" {
				return scripted.Reply{Text: "The word was " + strings.Trim(strings.Fields(word)[0], ".") + "."}
			}
		}
		return scripted.Reply{Text: "I do not remember a word."}
	}
	command, _ := json.Marshal(map[string]string{
		"command": "echo 'hello from the cage' > " + filepath.Join(s.project, "hello.txt"),
	})
	return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "bash", Arguments: string(command)}}}
}

// play is the demo, step by step. Each step fails when its outcome is not what
// it should be.
func (s *stage) play(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.run, s.work, s.look, s.rip, s.resurrect, s.remove} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) run(ctx context.Context) error {
	say("run an agent that may write to %s and to nothing else", s.project)
	var info struct {
		ID    string `json:"agent_id"`
		State string
		PID   int
	}
	err := s.call(ctx, "run", map[string]any{"write": []string{s.project}, "cwd": s.project, "name": "demo"}, &info)
	if err != nil {
		return err
	}
	s.agent = info.ID
	tell("agent %s is %s, its cage has pid %d", info.ID, info.State, info.PID)
	return nil
}

func (s *stage) work(ctx context.Context) error {
	say("send it a task")
	err := s.call(ctx, "send_message", map[string]any{
		"message": "Write hello.txt with your bash tool. The word is " + s.word + ".",
	}, nil)
	if err != nil {
		return err
	}
	text, err := s.idle(ctx, 1)
	if err != nil {
		return err
	}
	tell("it answered: %s", text)
	written, err := os.ReadFile(filepath.Join(s.project, "hello.txt"))
	if err != nil {
		return fmt.Errorf("the agent wrote no file: %w", err)
	}
	tell("hello.txt in the project says: %s", strings.TrimSpace(string(written)))
	return nil
}

func (s *stage) look(ctx context.Context) error {
	say("read its log, then grep it for the tool call")
	var chunk struct {
		Content string
		Size    int
	}
	if err := s.call(ctx, "read", map[string]any{"max_lines": 1}, &chunk); err != nil {
		return err
	}
	tell("stdout.log has %d bytes and begins: %.72s...", chunk.Size, chunk.Content)
	var found struct{ Stdout string }
	if err := s.call(ctx, "grep", map[string]any{"args": []string{"-c", "tool_execution_start"}}, &found); err != nil {
		return err
	}
	if found.Stdout = strings.TrimSpace(found.Stdout); found.Stdout != "1" {
		return fmt.Errorf("the log has %q tool calls, not one", found.Stdout)
	}
	tell("grep -c tool_execution_start: %s", found.Stdout)
	return nil
}

func (s *stage) rip(ctx context.Context) error {
	say("rip it: the process ends, the session stays")
	var info struct{ State string }
	if err := s.call(ctx, "rip", nil, &info); err != nil {
		return err
	}
	tell("agent is %s", info.State)
	return nil
}

func (s *stage) resurrect(ctx context.Context) error {
	say("resurrect it and ask for the word, which only the session still has")
	if err := s.call(ctx, "resurrect", map[string]any{"prompt": "Which word did I tell you?"}, nil); err != nil {
		return err
	}
	text, err := s.idle(ctx, 2)
	if err != nil {
		return err
	}
	if !strings.Contains(text, s.word) {
		return fmt.Errorf("it should have answered %q, not %q", s.word, text)
	}
	tell("it answered: %s (told: %s)", text, s.word)
	return nil
}

func (s *stage) remove(ctx context.Context) error {
	say("remove it and everything it left")
	return s.call(ctx, "remove", nil, nil)
}
