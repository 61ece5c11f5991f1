package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// relay is a client in a process of its own, to be killed: it starts the server
// that args name and passes on what goes between the server and the test. It says
// the server's pid on stderr.
func relay(args []string) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		panic(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "server pid %d\n", cmd.Process.Pid)
	go io.Copy(os.Stdout, out)
	io.Copy(in, os.Stdin)
	in.Close()
	cmd.Wait()
}
