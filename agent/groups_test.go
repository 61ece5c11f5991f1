package agent

import (
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
)

// Root without a control group gets no agents, unless it says that it wants them
// without a limit.
func TestGroupsCheck(t *testing.T) {
	const lacks = "cannot limit processes: some reason; some remedy"
	for _, tc := range []struct {
		name  string
		g     groups
		limit int64
		says  []string // nil: good
	}{
		{"root without", groups{root: true, lacks: lacks}, 1024, []string{lacks, "root", "--max-processes none"}},
		{"root without, no limit", groups{root: true, lacks: lacks}, NoLimit, nil},
		{"root with", groups{root: true, control: &cgroup.Controller{}}, 1024, nil},
		{"a user without", groups{lacks: lacks}, 1024, nil},
		{"a user with", groups{control: &cgroup.Controller{}}, 1024, nil},
		{"the fewest", groups{}, 64, nil},
		{"too few", groups{}, 63, []string{"--max-processes 63", "64", "none"}},
		{"zero", groups{}, 0, []string{"--max-processes 0", "64", "none"}},
	} {
		l := DefaultLimits()
		l.Processes = tc.limit
		err := tc.g.check(l)
		if (err == nil) != (tc.says == nil) {
			t.Errorf("%s: %v", tc.name, err)
		}
		for _, want := range tc.says {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", tc.name, err, want)
			}
		}
	}
}

// The refusal comes before anything is made, and what is not a start goes on.
func TestRootWithoutGroups(t *testing.T) {
	s := bareSupervisor(t)
	s.groups = groups{root: true, lacks: "there is none"}
	if _, err := s.Run(t.Context(), Caller{Group: "default"}, RunRequest{Cwd: "/"}); err == nil || !strings.Contains(err.Error(), "checking its limits") {
		t.Errorf("run: %v", err)
	}
	s.cfg.Limits.Processes = NoLimit
	if _, err := s.Run(t.Context(), Caller{Group: "default"}, RunRequest{Cwd: "/"}); err == nil || strings.Contains(err.Error(), "checking its limits") {
		t.Errorf("the control, a run without the limit: %v", err) // it fails later: there is no pi
	}
}

func TestPerProcess(t *testing.T) {
	none := Limits{Processes: NoLimit, FileSize: NoLimit}.perProcess()
	if none.Processes != 0 || none.FileSize != 0 {
		t.Errorf("no limit: %+v", none)
	}
	some := Limits{Processes: 100, FileSize: 0}.perProcess()
	if some.Processes != 100 || some.FileSize != 1 { // zero would be no limit
		t.Errorf("limits of 100 and 0: %+v", some)
	}
}
