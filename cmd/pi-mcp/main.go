// Command pi-mcp supervises sandboxed coding agents and serves them over MCP.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"pi-mcp/cage/cageinit"
	"pi-mcp/cage/selftest"
)

// version is set by the build.
var version = "devel"

func main() {
	if len(os.Args) == 2 && os.Args[1] == cageinit.Command {
		cageinit.Main()
	}
	if len(os.Args) > 1 && os.Args[1] == selftest.Command {
		selftest.Main(os.Args[2:])
	}
	defer keepAwake()()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "pi-mcp:", err)
		stop()
		os.Exit(1)
	}
}

// keepAwake keeps a timer pending for the life of the process. Without one, the
// Go runtime can sleep through a stop of the world for a minute when a blocking
// system call begins at the wrong moment (seen with Go 1.26.8).
func keepAwake() (stop func()) {
	tick := time.NewTicker(200 * time.Millisecond)
	go func() {
		for range tick.C {
		}
	}()
	return tick.Stop
}

func command() *cli.Command {
	return &cli.Command{
		Name:      "pi-mcp",
		Usage:     "run coding agents in sandboxes, over MCP",
		Version:   version,
		Flags:     flags(),
		Action:    serve,
		Writer:    os.Stderr, // stdout belongs to the protocol
		ErrWriter: os.Stderr,
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			return fmt.Errorf("%w; see pi-mcp --help", err)
		},
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Commands: []*cli.Command{
			{Name: "serve", Usage: "serve one MCP client on stdin and stdout (the default)", Action: serve},
			{Name: "doctor", Usage: "try out what agents need, and say what is wrong and what to do", Action: doctor,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}}},
			{Name: "demo", Usage: "show the whole of it with a model that follows a script; needs no key and no network", Action: demo},
			{Name: "version", Usage: "print the version", Action: func(context.Context, *cli.Command) error {
				fmt.Println(version)
				return nil
			}},
		},
	}
}
