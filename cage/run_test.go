package cage_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pi-mcp/cage"
)

func TestRun(t *testing.T) {
	b := open(t)
	r, err := b.Run(t.Context(), cage.Spec{}, []string{"/bin/sh", "-c", "echo out; echo err >&2; cat; exit 3"}, cage.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Stdout) != "out\n" || string(r.Stderr) != "err\n" || r.Exit != (cage.Exit{Code: 3}) {
		t.Errorf("got %q %q %+v", r.Stdout, r.Stderr, r.Exit)
	}
}

func TestRunLimits(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, test := range []struct {
		script               string
		limits               cage.Limits
		out, err             int
		outTruncated, errTru bool
	}{
		{"printf 12345", cage.Limits{Stdout: 5}, 5, 0, false, false},
		{"printf 123456; exec sleep " + marker(7), cage.Limits{Stdout: 5}, 5, 0, true, false},
		{"printf 123456 >&2; exec sleep " + marker(7), cage.Limits{Stderr: 5}, 0, 5, false, true},
		{"exec cat /dev/zero", cage.Limits{}, 64 << 10, 0, true, false},
		{"exec cat /dev/zero", cage.Limits{Stdout: 1 << 20}, 1 << 20, 0, true, false},
	} {
		r, err := b.Run(t.Context(), cage.Spec{}, []string{"/bin/sh", "-c", test.script}, test.limits)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Stdout) != test.out || len(r.Stderr) != test.err ||
			r.StdoutTruncated != test.outTruncated || r.StderrTruncated != test.errTru {
			t.Errorf("%s: %d %v, %d %v", test.script, len(r.Stdout), r.StdoutTruncated, len(r.Stderr), r.StderrTruncated)
		}
		if killed := r.Exit.Signal == "SIGKILL"; killed != (test.outTruncated || test.errTru) {
			t.Errorf("%s: %+v", test.script, r.Exit)
		}
	}
}

func TestRunCancelled(t *testing.T) {
	b := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sleep := marker(8)
	if _, err := b.Run(ctx, cage.Spec{Env: env}, []string{"/bin/sleep", sleep}, cage.Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left := processes(t, sleep); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestRunEnds: what would run for ever ends with the context.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	busy, ended := marker(9), make(chan error)
	go func() {
		_, err := b.Run(ctx, cage.Spec{Env: env}, []string{"/bin/sh", "-c", ": " + busy + "; while :; do :; done"}, cage.Limits{})
		ended <- err
	}()
	for len(processes(t, busy)) == 0 { // control: it runs
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left := processes(t, busy); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRunCage(t *testing.T) {
	b := open(t)
	_, err := b.Run(t.Context(), cage.Spec{Dir: "/none"}, []string{"/bin/true"}, cage.Limits{})
	if err == nil || !strings.Contains(err.Error(), "cannot use /none as the working directory") || !strings.Contains(err.Error(), "choose one inside a grant") {
		t.Errorf("error %v", err)
	}
}
