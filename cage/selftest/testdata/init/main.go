// Command init is the smallest program that a self-test works with.
package main

import (
	"os"

	"pi-mcp/cage/cageinit"
	"pi-mcp/cage/selftest"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == cageinit.Command:
		cageinit.Main()
	case len(os.Args) > 1 && os.Args[1] == selftest.Command:
		selftest.Main(os.Args[2:])
	}
}
