package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"pi-mcp/agent"
)

// doctor tries out what agents need and prints a line for each thing. It touches
// neither the database nor any agent.
func doctor(ctx context.Context, cmd *cli.Command) error {
	state, err := os.MkdirTemp("", "pi-mcp-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // a user without one has nothing to protect there
	}
	found := agent.Doctor(ctx, agent.Config{
		StateDir: state, Init: "/proc/self/exe",
		Path: os.Getenv("PATH"), Pi: cmd.String("pi"), Node: cmd.String("node"), Bwrap: cmd.String("bwrap"),
		Provider: cmd.String("provider"), Home: home, Limits: limits(cmd),
	})
	if cmd.Bool("json") {
		text, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	} else {
		for _, f := range found {
			fmt.Printf("%-8s %-14s %s\n", f.Status, f.Name, f.Detail)
		}
	}
	if !agent.Healthy(found) {
		return errors.New("agents cannot run here; the line with error says why")
	}
	return nil
}
