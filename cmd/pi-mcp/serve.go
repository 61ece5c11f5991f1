package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"pi-mcp/agent"
	"pi-mcp/agent/pi"
	"pi-mcp/artifacts"
	"pi-mcp/cage/egress"
	"pi-mcp/mcpserver"
	"pi-mcp/store"
)

// defaultGroup is the group of a stdio client without an access token.
const defaultGroup = "default"

// serve serves one client on stdin and stdout until it goes away.
func serve(ctx context.Context, cmd *cli.Command) (err error) {
	if args := cmd.Args().Slice(); len(args) > 0 {
		return fmt.Errorf("there is no command %q; see pi-mcp --help", args[0])
	}
	if t := cmd.String("transport"); t != "stdio" {
		return fmt.Errorf("--transport %q: this version serves stdio only", t)
	}
	log, err := logger(cmd.String("log-level"))
	if err != nil {
		return err
	}
	cfg, err := config(ctx, cmd, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore(cfg.Store)) }()
	sup, err := agent.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer sup.Close()
	who := agent.Caller{Group: defaultGroup}
	if token := os.Getenv("PI_MCP_ACCESS_TOKEN"); token != "" {
		if who.Group, err = sup.GroupOf(ctx, token); err != nil {
			return err
		}
	}
	srv := mcpserver.New(mcpserver.Config{Supervisor: sup, Version: version, Log: log})
	sup.Serve(srv.Endpoint)
	return srv.Stdio(ctx, who, sup.Close)
}

// egressOf reads the flags about the agents' network.
func egressOf(network, allow string) (egress.Policy, []netip.AddrPort, error) {
	policy, err := egress.Parse([]string{network})
	if err != nil {
		return "", nil, fmt.Errorf("--network: %w", err)
	}
	var all []netip.AddrPort
	for _, text := range strings.FieldsFunc(allow, func(r rune) bool { return r == ',' || r == ' ' }) {
		addr, err := netip.ParseAddrPort(text)
		if err != nil {
			return "", nil, fmt.Errorf("--egress-allow %q: write ADDRESS:PORT, such as 10.0.0.7:443", text)
		}
		all = append(all, addr)
	}
	return policy, all, nil
}

// closeStore closes the database. One that another process keeps locked is left:
// it is sound, and a client does not wait for long.
func closeStore(db *store.DB) error {
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(500 * time.Millisecond):
		return errors.New("another process keeps the database locked; the next server puts in order what could not be written")
	}
}

func logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: write debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}

// second reports whether a flag that takes one of two words has the second.
func second(cmd *cli.Command, name, first, other string) (bool, error) {
	word := cmd.String(name)
	if word != first && word != other {
		return false, fmt.Errorf("--%s %q: write %s or %s", name, word, first, other)
	}
	return word == other, nil
}

// config opens what a supervisor needs, as the flags say.
func config(ctx context.Context, cmd *cli.Command, log *slog.Logger) (agent.Config, error) {
	path := cmd.String("db")
	var err error
	if path == "" {
		if path, err = dbPath(); err != nil {
			return agent.Config{}, err
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return agent.Config{}, err
	}
	db, err := store.Open(ctx, path)
	if err != nil {
		return agent.Config{}, fmt.Errorf("--db: %w", err)
	}
	dir := cmd.String("agents-dir")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(path), "agents")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return agent.Config{}, errors.Join(err, db.Close())
	}
	files, err := artifacts.Open(dir, db.ID())
	if err != nil {
		return agent.Config{}, errors.Join(fmt.Errorf("--agents-dir %s: %w", dir, err), db.Close())
	}
	state := filepath.Join(filepath.Dir(path), "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return agent.Config{}, errors.Join(fmt.Errorf("--db: %w", err), db.Close())
	}
	network, allow, err := egressOf(cmd.String("network"), cmd.String("egress-allow"))
	if err != nil {
		return agent.Config{}, errors.Join(err, db.Close())
	}
	wholeGroup, err := second(cmd, "agent-scope", "descendants", "group")
	if err != nil {
		return agent.Config{}, errors.Join(err, db.Close())
	}
	anyProvider, err := second(cmd, "child-provider", "own", "any")
	if err != nil {
		return agent.Config{}, errors.Join(err, db.Close())
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // a user without one has nothing to protect there
	}
	return agent.Config{
		Store: db, Artifacts: files, StateDir: state, HostPi: pi.HostDir(), Home: home,
		Protected: []string{path, path + "-wal", path + "-shm", filepath.Join(filepath.Dir(path), "owners")},
		Path:      os.Getenv("PATH"), Pi: cmd.String("pi"), Node: cmd.String("node"), Bwrap: cmd.String("bwrap"),
		Init:    "/proc/self/exe", // also when an upgrade has replaced the file
		Network: network, EgressAllow: allow,
		Provider: cmd.String("provider"), Model: cmd.String("model"),
		ChildMCP:     cmd.Value("child-mcp").(bool),
		RefreshPause: cmd.Value("refresh-pause").(time.Duration),
		Handshake:    max(cmd.Value("handshake").(time.Duration), 1),
		Grace:        max(cmd.Value("grace").(time.Duration), 1), // zero would be the default
		CheckPause:   cmd.Value("check-pause").(time.Duration),
		Limits:       limits(cmd),
		CallbackHold: max(cmd.Value("callback-hold").(time.Duration), 1),
		GroupScope:   wholeGroup,
		AnyProvider:  anyProvider,
		Log:          log,
	}, nil
}
