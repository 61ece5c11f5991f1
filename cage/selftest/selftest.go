// Package selftest tries to get out of a cage, for the doctor: a program in a cage
// made like an agent's does what an agent must not be able to do, and tells what it
// achieved. All of it is harmless where it succeeds.
//
// The program is the server's own, which every cage has as its first process.
package selftest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"pi-mcp/cage"
	"pi-mcp/cage/cageinit"
)

// Command is the first argument of a program that is to call Main.
const Command = "cage-selftest"

// A Result is one attempt and what it achieved: nothing, if Achieved is empty.
type Result struct{ Name, Achieved string }

// Run makes a cage and has every attempt made in it. hidden are paths of the host
// that must not be there. The error says that there was no cage, or that the program
// did not do its work.
func Run(ctx context.Context, b *cage.Bwrap, hidden []string) ([]Result, error) {
	spec := cage.Spec{Listen: []string{"127.0.0.1:3128"}} // an agent's has a listener, too
	argv := append([]string{cageinit.Path, Command}, hidden...)
	res, err := b.Run(ctx, spec, argv, cage.Limits{})
	if err != nil {
		return nil, err
	}
	var all []Result
	if err := json.Unmarshal(res.Stdout, &all); err != nil || res.Exit.Code != 0 {
		return nil, fmt.Errorf("cannot try out a cage: the program in it ended with %d: %s", res.Exit.Code, res.Stderr)
	}
	return all, nil
}

// Main makes every attempt where it is, prints the results as JSON and does not
// return. hidden are paths that must not be there.
func Main(hidden []string) {
	if err := json.NewEncoder(os.Stdout).Encode(attempt(hidden)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
