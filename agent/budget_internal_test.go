package agent

import (
	"strings"
	"testing"

	"pi-mcp/artifacts"
)

// What follows from looks in a row. Each letter is a look that finds the agent: "." is
// below its limits; "r" over one with a run on, "a" active between runs, "i" idle; "R",
// "A", "I" far over it. The answer to each: "t" is to tell it, "x" to stop it.
func TestJudge(t *testing.T) {
	for _, tc := range []struct{ looks, verdicts string }{
		{"....", "...."},
		{"rrrr", "t..x"}, // the grace is two looks
		{"rr.rr", "t..t."},
		{"rr.r.r", "t..t.t"},
		{"RR", "tx"}, // told all the same, and no grace
		{"rrR", "t.x"},
		{"ii", ".x"},
		{"i.i.i", "....."},
		{"II", ".x"},
		{"ir", ".t"}, // woken up meanwhile: it has its grace from here
		{"irrrr", ".t..x"},
		{"rii", "t.x"}, // its run ended, and nothing was deleted
		{"ri.", "t.."},
		{"aaa", "..x"}, // never a moment to tell it
		{"AAA", "..x"},
		{"aar", "..t"},
	} {
		var b budget
		got := ""
		for _, look := range tc.looks {
			is := func(letters string) bool { return strings.ContainsRune(letters, look) }
			v := b.judge(finding{over: !is("."), far: is("RAI"), active: is("rRaA"), running: is("rR")}, 2)
			got += string(".tx"[v])
			if v == rip {
				break
			}
		}
		if got != tc.verdicts {
			t.Errorf("%s: %s, not %s", tc.looks, got, tc.verdicts)
		}
	}
}

func TestExcess(t *testing.T) {
	paths := artifacts.Paths{Tmp: "/host/tmp", Home: "/host/home"}
	at := func(bytes, files, session int64) look {
		return look{usage: artifacts.Usage{Bytes: bytes, Files: files}, session: session}
	}
	l := DefaultLimits()
	l.Tmp, l.TmpFiles, l.Session = 1<<20, 100, 1<<20
	for _, tc := range []struct {
		at            look
		far           bool
		agent, people []string
	}{
		{at(1<<20, 100, 1<<20), false, nil, nil},
		{at(3<<19, 0, 0), false, []string{"1.5 MiB", "1 MiB", "/tmp", "Delete"}, []string{"--max-tmp:", "/host/tmp", "/host/home"}},
		{at(3<<20, 0, 0), true, []string{"3 MiB"}, []string{"--max-tmp:"}},
		{at(0, 101, 0), false, []string{"101", "100.", "Delete"}, []string{"--max-tmp-files:", "/host/tmp"}},
		{at(0, 201, 0), true, nil, []string{"--max-tmp-files:"}},
		{at(0, 0, 1<<20+1), false, []string{"session", "1 MiB"}, []string{"--max-session:", "new agent"}},
		{at(0, 0, 3<<20), true, nil, []string{"--max-session:"}},
	} {
		e := l.excess(tc.at)
		if e == nil || tc.people == nil {
			if (e == nil) != (tc.people == nil) {
				t.Errorf("%+v: %+v", tc.at, e)
			}
			continue
		}
		if e.far != tc.far {
			t.Errorf("%+v: far over it: %t", tc.at, e.far)
		}
		for _, want := range tc.agent {
			if got := e.toAgent(); !strings.Contains(got, want) {
				t.Errorf("%q does not say %q", got, want)
			}
		}
		for _, want := range tc.people {
			if got := e.toPeople(paths); !strings.Contains(got, want) {
				t.Errorf("%q does not say %q", got, want)
			}
		}
	}
	l.Tmp, l.TmpFiles, l.Session = NoLimit, NoLimit, NoLimit
	if e := l.excess(at(NoLimit, NoLimit, NoLimit)); e != nil {
		t.Errorf("without limits: %+v", e)
	}
}

// A limit with which no agent can live is refused by its flag.
func TestTooLittle(t *testing.T) {
	if err := DefaultLimits().check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for flag, set := range map[string]func(*Limits){
		"--max-processes 63 ":   func(l *Limits) { l.Processes = 63 },
		"--max-memory 63 MiB ":  func(l *Limits) { l.Memory = 63 << 20 },
		"--max-cpu 0 ":          func(l *Limits) { l.CPU = 0 },
		"--max-tmp 0 bytes ":    func(l *Limits) { l.Tmp = 0 },
		"--max-tmp-files 99 ":   func(l *Limits) { l.TmpFiles = 99 },
		"--max-session 63 KiB ": func(l *Limits) { l.Session = 63 << 10 },
	} {
		l := DefaultLimits()
		set(&l)
		if err := l.check(); err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), "none") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1023.99 KiB", 2 << 30: "2 GiB", 5 << 40: "5120 GiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
}
