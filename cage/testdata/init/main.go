// Command init is the smallest program that can be the first process of a cage.
package main

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
)

// With one more argument it does not die with bubblewrap, but only after package cageinit
// has seen that it would. This runs on the first thread, which the kernel goes by.
func init() {
	if !slices.Equal(os.Args[1:], []string{cageinit.Command, "unbound"}) {
		return
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == cageinit.Command {
		cageinit.Main()
	}
}
