package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
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
		"setting up uid map":     "PI_MCP_BWRAP=" + w.stub("denied", string(help), "bwrap: setting up uid map: Permission denied"),
	} {
		out, errs, code := w.start([]string{env}, "doctor")
		if code != 1 || !strings.Contains(errs, "agents cannot run here") {
			t.Errorf("%s: exit code %d\n%s%s", env, code, out, errs)
		}
		has(t, env, out, "error", what)
	}
}
