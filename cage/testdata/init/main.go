// Command init is the smallest program that can be the first process of a cage.
package main

import (
	"os"

	"pi-mcp/cage/cageinit"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == cageinit.Command {
		cageinit.Main()
	}
}
