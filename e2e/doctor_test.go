package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
	"pi-mcp/scripted"
)

// On a machine where agents run, the doctor finds nothing broken; where something
// is, it names it with a remedy and exits 1. It leaves nothing behind.
func TestDoctor(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	out, errs, code := w.start(nil, "doctor")
	if code != 0 || strings.Contains(out, "error") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, part := range []string{"landlock", "bubblewrap", "pi in a cage", "1.6.0", "provider scripted is ready"} {
		has(t, "doctor", out, part)
	}
	out, _, code = w.start([]string{"PI_MCP_PROVIDER=nobody"}, "doctor", "--json")
	var found []struct{ Name, Status, Detail string }
	must(t, json.Unmarshal([]byte(out), &found))
	if last := found[len(found)-1]; code != 0 || last.Name != "credentials" || last.Status != "warning" {
		t.Errorf("without credentials: exit code %d, %+v", code, found)
	}
	help, err := exec.Command("bwrap", "--help").CombinedOutput()
	must(t, err)
	for what, env := range map[string]string{
		"apt install bubblewrap": "PATH=/nonexistent",
		"pi-nowhere":             "PI_MCP_PI=/pi-nowhere",
		"--max-cpu 0 is too low": "PI_MCP_MAX_CPU=0",
		"setting up uid map":     "PI_MCP_BWRAP=" + w.stub("denied", string(help), "bwrap: setting up uid map: Permission denied"),
	} {
		out, errs, code := w.start([]string{env}, "doctor")
		if code != 1 || !strings.Contains(errs, "agents cannot run here") {
			t.Errorf("%s: exit code %d\n%s%s", env, code, out, errs)
		}
		has(t, env, out, "error", what)
	}
}

// The doctor says whether a limit on memory and CPU holds here.
func TestDoctorLimits(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	for env, limit := range map[string]cgroup.Limits{
		"PI_MCP_MAX_MEMORY=2GiB": {MemoryBytes: 1 << 20}, "PI_MCP_MAX_CPU=1": {CPUPercent: 1}, "PI_MCP_MAX_CPU=none": {},
	} {
		lacks := []string{"no control group"}
		if control, err := cgroup.Detect(); err == nil {
			_, lacks = control.Trim(limit)
		}
		none, want := limit == cgroup.Limits{}, "ok       limits"
		if len(lacks) > 0 && !none {
			want = "warning  limits"
		}
		out, errs, code := w.start([]string{env}, "doctor")
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "are not set") != none {
			t.Errorf("%s: exit code %d\n%s%s", env, code, out, errs)
		}
	}
}

// The doctor is for showing around: neither a key nor a token is in what it says.
func TestDoctorTellsNoSecret(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	key, token, decoy := secret(), secret(), secret()
	w.hostPi("auth.json", logins(map[string]string{scripted.Provider: key}))
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}} {
		out, errs, code := w.start([]string{"PI_MCP_ACCESS_TOKEN=" + token, "MY_API_KEY=" + decoy, "PI_MCP_LOG_LEVEL=debug"}, args...)
		if code != 0 {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
		has(t, "the control: the credentials were looked at", out, "provider "+scripted.Provider+" is ready")
		for what, word := range map[string]string{"key": key, "token": token, "decoy": decoy} {
			if strings.Contains(out+errs, word) {
				t.Errorf("%v: the %s is in what it says", args, what)
			}
		}
	}
}
