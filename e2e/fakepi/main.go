package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// version is what pi --version prints, and the pi whose protocol is imitated.
const version = "1.6.0"

// options are the arguments that matter; the others are pi's and ignored.
type options struct {
	dir      string // of the executable, where scripts lie
	mode     string
	provider string
	model    string
	session  string
	thinking string
}

func main() {
	// While no timer is due, a blocking read of stdin can stall the Go runtime
	// for a minute, and a test would seem to hang.
	go func() {
		for range time.Tick(100 * time.Millisecond) {
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		fail("cannot find itself: %v", err)
	}
	args := os.Args[1:]
	opts := parse(filepath.Dir(exe), args)
	switch {
	case slices.Contains(args, "--version"):
		fmt.Println(version)
	case len(args) > 1 && args[0] == "auth" && args[1] == "check":
		os.Exit(authCheck(opts, slices.Contains(args, "--credentials")))
	case opts.mode == "rpc":
		serve(opts)
	default:
		fail("the fake pi knows --version, auth check and --mode rpc, not %q", args)
	}
}

// parse takes "--flag value" pairs. Their order does not matter.
func parse(dir string, args []string) options {
	opts := options{dir: dir, thinking: "off"}
	flags := map[string]*string{
		"--mode":     &opts.mode,
		"--provider": &opts.provider,
		"--model":    &opts.model,
		"--session":  &opts.session,
		"--thinking": &opts.thinking,
	}
	for i := 0; i+1 < len(args); i++ {
		if value := flags[args[i]]; value != nil {
			i++
			*value = args[i]
		}
	}
	return opts
}

// serve plays pi until the end of its input.
func serve(opts options) {
	sess, err := openSession(opts.session)
	if err != nil {
		fail("%v", err)
	}
	sc, err := loadScript(opts)
	if err != nil {
		fail("%v", err)
	}
	p := &pi{opts: opts, script: sc, session: sess, out: &wire{w: os.Stdout}, asked: map[string]chan struct{}{}}
	exitOnSignals()
	p.play(context.Background(), sc.Start, nil)
	p.read(os.Stdin)
}

// exitOnSignals ends pi on the signals that end the real one, with its codes.
func exitOnSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := (<-signals).(syscall.Signal)
		os.Exit(128 + int(s))
	}()
}

// authCheck answers "pi auth check --json", as the file for the provider says,
// or that all is well. It returns the exit code.
func authCheck(opts options, credentials bool) int {
	answer, err := os.ReadFile(filepath.Join(opts.dir, "auth-"+filepath.Base(opts.provider)+".json"))
	if err == nil {
		fmt.Println(strings.TrimSpace(string(answer)))
		var a struct{ Status string }
		json.Unmarshal(answer, &a)
		return map[string]int{"not_ready": 1, "invalid": 2}[a.Status]
	}
	ready := fields{{"status", "ready"}, {"provider", opts.provider}, {"authType", "api_key"}}
	if credentials {
		ready = append(ready, field{"credentials", "fake-key"})
	}
	fmt.Printf("%s\n", encode(ready))
	return 0
}

// wordsOfPi is an error that the real pi would word so.
type wordsOfPi string

func (w wordsOfPi) Error() string { return string(w) }

// fail ends pi the way a bad argument does.
func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "Error: "+format+"\n", args...)
	os.Exit(1)
}
