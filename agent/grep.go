package agent

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"pi-mcp/artifacts"
	"pi-mcp/cage"
)

// Limits of one grep.
const (
	grepWait   = 30 * time.Second
	grepStdout = 1 << 20  // bytes
	grepStderr = 64 << 10 // bytes
)

// grepLimits are for patterns and lines that take too much: grep is one process, and
// writes no file. Its CPU time also ends when this server hangs.
func grepLimits() cage.Rlimits {
	return cage.Rlimits{Processes: cage.FewestProcesses, FileSize: 1, Data: 512 << 20, CPU: int64(grepWait / time.Second)}
}

// A GrepResult is what grep printed. Exit code 1, nothing found, is a result.
type GrepResult struct {
	AgentID         string   `json:"agent_id"`
	Binary          string   `json:"binary"`
	Cwd             string   `json:"cwd"`
	Path            *string  `json:"path"`
	Args            []string `json:"args"`
	Argv            []string `json:"argv"`
	ExitCode        int      `json:"exit_code"`
	Stdout          string   `json:"stdout"`
	Stderr          string   `json:"stderr"`
	StdoutTruncated bool     `json:"stdout_truncated"`
	StderrTruncated bool     `json:"stderr_truncated"`
}

// A LogGrepResult is a GrepResult over one of the logs.
type LogGrepResult struct {
	GrepResult
	Stream artifacts.Stream `json:"stream"`
}

// Grep runs the host's grep over a log. It runs in a throw-away cage that holds
// nothing of the host but the system's programs and that one file, so whatever
// the arguments mean they can reach nothing else.
func (s *Supervisor) Grep(ctx context.Context, who Caller, id string, stream artifacts.Stream, args []string) (LogGrepResult, error) {
	dir, err := s.files(ctx, who, id)
	if err != nil {
		return LogGrepResult{}, err
	}
	defer dir.Close()
	paths := s.cfg.Artifacts.Paths(id)
	file, name := paths.StdoutLog, "stdout.log"
	if stream == artifacts.Errors {
		file, name = paths.ErrorLog, "errors.log"
	}
	argv, err := artifacts.GrepArgs(args, name)
	if err != nil {
		return LogGrepResult{}, argError(err)
	}
	res, err := s.grep(ctx, cage.Spec{
		Binds: []cage.Bind{{Source: file, Target: "/log/" + name}},
		Dir:   "/log",
	}, argv)
	res.AgentID, res.Cwd, res.Path, res.Args = id, paths.Dir, &name, args
	return LogGrepResult{GrepResult: res, Stream: stream}, err
}

// GrepTmp runs the host's grep in the agent's /tmp, or in the directory cwd of
// it, over the file path or over what args name. It is caged like Grep.
func (s *Supervisor) GrepTmp(ctx context.Context, who Caller, id string, args []string, cwd, file string) (GrepResult, error) {
	dir, err := s.files(ctx, who, id)
	if err != nil {
		return GrepResult{}, err
	}
	defer dir.Close()
	call, err := dir.GrepTmp(args, cwd, file)
	if err != nil {
		return GrepResult{}, argError(err)
	}
	tmp := s.cfg.Artifacts.Paths(id).Tmp
	res, err := s.grep(ctx, cage.Spec{
		Binds: []cage.Bind{{Source: tmp, Target: "/tmp"}},
		Dir:   path.Join("/tmp", call.Cwd),
	}, call.Argv)
	res.AgentID, res.Cwd, res.Path, res.Args = id, path.Join(tmp, call.Cwd), filled(call.Path), args
	return res, err
}

func (s *Supervisor) grep(ctx context.Context, spec cage.Spec, argv []string) (GrepResult, error) {
	bwrap, err := s.tools.cage(s.cfg)
	if err != nil {
		return GrepResult{}, &StartError{What: "grep", Step: "looking for bubblewrap", Reason: err.Error()}
	}
	grep, err := grepPath(s.cfg.Path)
	if err != nil {
		return GrepResult{}, &StartError{What: "grep", Step: "looking for it", Reason: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, grepWait)
	defer cancel()
	spec.Env, spec.Limits = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, grepLimits()
	out, err := bwrap.Run(ctx, spec, append([]string{grep}, argv...), cage.Limits{Stdout: grepStdout, Stderr: grepStderr})
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return GrepResult{}, &ArgError{"args", "took longer than " + grepWait.String() + ": use a simpler pattern or a smaller file"}
	case ctx.Err() != nil:
		return GrepResult{}, ctx.Err()
	case err != nil:
		return GrepResult{}, &StartError{What: "grep", Step: "making its cage", Reason: err.Error()}
	}
	res := GrepResult{
		Binary: grep, Argv: argv, ExitCode: out.Exit.Code,
		Stdout: text(out.Stdout), Stderr: text(out.Stderr),
		StdoutTruncated: out.StdoutTruncated, StderrTruncated: out.StderrTruncated,
	}
	if out.StdoutTruncated { // grep was ended because it found too much, so it found something
		res.ExitCode = 0
	}
	return res, nil
}

// text is output as a JSON string can carry it.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
