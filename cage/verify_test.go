package cage_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pi-mcp/cage"
)

// TestVerified: what is moved or replaced between the look at a path and its mount is
// found from inside, and the program is not started. The bubblewrap here mounts by path
// and, just before it begins, somebody who can write there does something.
func TestVerified(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		attack string // in the tree
		grants cage.Grants
		ok     bool
	}{
		"nothing":                  {"true", cage.Grants{Write: []string{"w"}, Denied: []string{"w/d/e/no"}}, true},
		"another directory":        {"mv w old; mkdir -p w/d/e/no", cage.Grants{Write: []string{"w"}, Denied: []string{"w/d/e/no"}}, false},
		"another read-only file":   {"mv w/f w/g; echo x >w/f", cage.Grants{Write: []string{"w"}, Read: []string{"w/f"}}, false},
		"a relative symlink":       {"mv w/d w/x; ln -s x w/d", cage.Grants{Write: []string{"w"}, Denied: []string{"w/d/e/no"}}, false},
		"a symlink for the mask":   {"rmdir w/d/e/no; ln -s .. w/d/e/no", cage.Grants{Write: []string{"w"}, Denied: []string{"w/d/e/no"}}, false},
		"a symlink out of the way": {"mv w/d w/x; ln -s /oldroot$PWD/secret w/d", cage.Grants{Write: []string{"w"}, Denied: []string{"w/d/e/no"}}, false},
		"the parent of a grant":    {"mv p q; cp -r q p", cage.Grants{Read: []string{"p/r"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, "w/f", "w/d/e/no/", "secret/e/no/f", "p/r/f")
			script := fmt.Sprintf("(cd %s && { %s; }) >&2; exec %s \"$@\"", root, test.attack, tool(t, "bwrap"))
			path := stub(t, help(t, "--bind-fd", "--ro-bind-fd"), script)
			b, err := cage.Open(cage.Config{Bwrap: path, Init: initProgram, StateDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			spec := cage.Spec{Grants: resolve(t, under(root, test.grants))}
			_, err = b.Run(t.Context(), spec, []string{"/bin/touch", root + "/w/ran"}, cage.Limits{})
			if (err == nil) != test.ok {
				t.Errorf("error %v, want ok %v", err, test.ok)
			}
			if err != nil && !strings.Contains(err.Error(), "cage-init: cannot trust") && !strings.Contains(err.Error(), "bwrap: ") {
				t.Errorf("the error does not say why: %v", err)
			}
			for _, dir := range []string{"/w", "/old", "/secret"} {
				if _, err := os.Stat(root + dir + "/ran"); (err == nil) != (test.ok && dir == "/w") {
					t.Errorf("the program ran in %s", dir)
				}
			}
		})
	}
}
