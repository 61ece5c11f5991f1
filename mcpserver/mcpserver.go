// Package mcpserver offers a Supervisor to MCP clients. A tool is one file: its
// description, its input, its output and its handler. Handlers translate; they
// decide nothing.
package mcpserver

import (
	"context"
	_ "embed"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
)

//go:embed instructions.md
var instructions string

// Config is what a Server needs.
type Config struct {
	Supervisor *agent.Supervisor // required
	Version    string            // told to clients; default "devel"
	Log        *slog.Logger      // default: discard
	Progress   time.Duration     // between two notices of a wait that goes on; default 15 s
}

// A Server is the tools over one supervisor.
type Server struct {
	sup *agent.Supervisor
	cfg Config

	lifetime context.Context // ends when the server stops; cuts calls short
	stop     context.CancelFunc

	made sync.Map // the description of each tool, by name
}

// New returns a server. It starts nothing.
func New(cfg Config) *Server {
	if cfg.Version == "" {
		cfg.Version = "devel"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Progress == 0 {
		cfg.Progress = 15 * time.Second
	}
	s := &Server{sup: cfg.Supervisor, cfg: cfg}
	s.lifetime, s.stop = context.WithCancel(context.Background())
	return s
}

// Stop cuts short the calls under way and refuses later ones.
func (s *Server) Stop() { s.stop() }

// A callerOf says on whose behalf a request is made.
type callerOf func(*mcp.CallToolRequest) agent.Caller

// MCP returns the tools as the SDK serves them, on behalf of who.
func (s *Server) MCP(who agent.Caller) *mcp.Server {
	return s.tools(s.lifetime, func(*mcp.CallToolRequest) agent.Caller { return who })
}

// tools makes what the SDK serves. Calls end with lifetime, which is the server's or
// ends before it.
func (s *Server) tools(lifetime context.Context, who callerOf) *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "pi-mcp", Title: "pi-mcp", Version: s.cfg.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{},
		Logger:       s.sdkLog(),
	})
	m.AddReceivingMiddleware(s.recover, s.bound(lifetime))
	add(s, m, who, listTool, s.list)
	add(s, m, who, getInfoTool, s.getInfo)
	add(s, m, who, runTool, s.run)
	add(s, m, who, ripTool, s.rip)
	add(s, m, who, resurrectTool, s.resurrect)
	add(s, m, who, sendMessageTool, s.sendMessage)
	add(s, m, who, abortTool, s.abort)
	addCall(s, m, who, waitTool, s.wait)
	add(s, m, who, removeTool, s.remove)
	add(s, m, who, readTool, s.read)
	add(s, m, who, grepTool, s.grep)
	add(s, m, who, listTmpTool, s.listTmp)
	add(s, m, who, readTmpTool, s.readTmp)
	add(s, m, who, grepTmpTool, s.grepTmp)
	return m
}

func (s *Server) sdkLog() *slog.Logger { return slog.New(warnings{s.cfg.Log.Handler()}) }

// warnings passes on what is at least a warning: the SDK tells of every
// connection.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}
