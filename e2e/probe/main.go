// Probe tries to get out of a cage. It is what a hostile agent would run first: each
// probe makes the real call, and says whether it worked.
//
// It reads a World from its standard input and writes one JSON Report a line, in the
// order of the numbers. Each probe has a process of its own, so that one that dies or
// changes what it lives in disturbs no other. What a probe changes it takes back.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// A World says where the things are that a cage must keep from an agent.
type World struct {
	Dir    string // the host's directory that holds all of them; its name is the mark of the host
	Decoy  string // a secret that is in the server's environment only
	First  int    // pid of the process that must not be looked into: 1 in a cage
	Host   int    // pid of a process outside, whose command line has Dir
	Name   string // of the host
	Port4  int    // of a listener on the host's loopback
	Port6  int    // 0 without one
	Shared int    // key of the host's shared memory

	Home, Agents, Write, Read, Session string

	ReadMount string // a mount that is read-only
	Mask      string // a mount that hides something
}

// A Report is what one probe found.
type Report struct {
	Number  int    `json:"number"`
	Name    string `json:"name"`
	Outcome string `json:"outcome"` // "blocked", "open", or "failed": the probe itself broke
	Detail  string `json:"detail"`
}

// A probe succeeds, with what it found, where the cage does not hold.
type probe struct {
	number int
	name   string
	try    func(World) (string, error)
}

func probes() []probe {
	all := slices.Concat(files(), processes(), mounts(), devices(), network(), kernel(), self())
	slices.SortFunc(all, func(a, b probe) int { return a.number - b.number })
	return all
}

// patience is how long one probe may take.
const patience = 20 * time.Second

func main() {
	inherited := descriptors() // before this process opens any
	if len(os.Args) > 1 && os.Args[1] != "one" {
		os.Exit(helper(os.Args[1]))
	}
	in, err := io.ReadAll(os.Stdin)
	var w World
	if err == nil {
		err = json.Unmarshal(in, &w)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot read the world:", err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for _, p := range probes() {
		r := Report{Number: p.number, Name: p.name}
		switch {
		case len(os.Args) > 2 && os.Args[2] != strconv.Itoa(p.number):
			continue
		case len(os.Args) > 2:
			r.Outcome, r.Detail = outcome(p.try(w))
		case p.number == 65:
			r.Outcome, r.Detail = outcome(strays(inherited, false))
		case p.number == 66:
			r.Outcome, r.Detail = outcome(strays(inherited, true))
		default:
			r = apart(r, in)
		}
		if err := out.Encode(r); err != nil {
			os.Exit(1)
		}
	}
}

func outcome(detail string, err error) (string, string) {
	if err != nil {
		return "blocked", err.Error()
	}
	return "open", detail
}

// apart runs one probe in a process of its own. The kernel kills one that makes a
// call of another architecture; that is an answer.
func apart(r Report, in []byte) Report {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "one", strconv.Itoa(r.Number))
	cmd.Stdin = bytes.NewReader(in)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil && json.Unmarshal(out, &r) == nil:
	case exit != nil && r.Number == 80:
		r.Outcome, r.Detail = "blocked", exit.Error()
	default:
		r.Outcome, r.Detail = "failed", fmt.Sprintf("%v: %s", err, out)
		if exit != nil {
			r.Detail += string(exit.Stderr)
		}
	}
	return r
}

// anyOf succeeds if any attempt does. The error is the last one's.
func anyOf(attempts ...func() (string, error)) (string, error) {
	err := errors.New("nothing to try")
	for _, try := range attempts {
		var found string
		if found, err = try(); err == nil {
			return found, nil
		}
	}
	return "", err
}
