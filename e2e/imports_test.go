// Package e2e holds the tests that need the whole program.
package e2e

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports compares the arrows in doc/design.md with the real ones.
func TestImports(t *testing.T) {
	page, err := os.ReadFile("../doc/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```imports\n")
	block, _, _ = strings.Cut(block, "```")
	want := map[string]string{}
	for line := range strings.Lines(block) {
		pkg, deps, _ := strings.Cut(strings.TrimSpace(line), ":")
		want[pkg] = strings.TrimSpace(deps)
	}
	got := imports(t)
	delete(got, "e2e") // may use everything
	for _, pkg := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[pkg]; !ok || w != got[pkg] {
			t.Errorf("%s imports %q, doc/design.md says %q", pkg, got[pkg], w)
		}
		delete(want, pkg)
	}
	for pkg := range want {
		t.Errorf("doc/design.md has %s, which does not exist", pkg)
	}
}

// imports lists, for each package of this module, what of this module it imports.
func imports(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		var ours []string
		for _, d := range f[1:] {
			if d, ok := strings.CutPrefix(d, "pi-mcp/"); ok {
				ours = append(ours, d)
			}
		}
		all[strings.TrimPrefix(f[0], "pi-mcp/")] = strings.Join(ours, " ")
	}
	return all
}
