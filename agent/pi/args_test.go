package pi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent/pi"
)

func TestArgs(t *testing.T) {
	want := []string{"--mode", "rpc", "--provider", "p", "--model", "a/b:c", "--session", "/agent_session.jsonl",
		"--no-approve", "--no-skills"}
	got, err := pi.Args("p", "a/b:c", "")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, level := range []string{"off", "minimal", "low", "medium", "high", "xhigh", "max"} {
		got, err := pi.Args("p", "a/b:c", level)
		if diff := cmp.Diff(append(want, "--thinking", level), got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
}

func TestArgsRefused(t *testing.T) {
	for _, test := range [][4]string{
		{"", "m", "", "provider"},
		{"--help", "m", "", "provider"},
		{"p", "", "", "model"},
		{"p", "-x", "", "model"},
		{"p", "m\x00", "", "model"},
		{"p", "m", "High", "off, minimal, low, medium, high, xhigh, max"},
	} {
		got, err := pi.Args(test[0], test[1], test[2])
		if err == nil {
			t.Errorf("%q gave %q", test, got)
			continue
		}
		contains(t, err.Error(), test[3])
	}
}

func TestSessionHeader(t *testing.T) {
	at := time.Date(2026, 12, 1, 1, 2, 3, 4_000_000, time.FixedZone("", 3600))
	got := string(pi.SessionHeader("id", `/a "b"`, at))
	want := `{"type":"session","version":3,"id":"id","timestamp":"2026-12-01T00:02:03.004Z","cwd":"/a \"b\""}` + "\n"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
