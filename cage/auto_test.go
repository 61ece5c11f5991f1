package cage_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

func complete(t testing.TB, g cage.Grants, p cage.Policy) cage.Rules {
	t.Helper()
	resolved, err := g.Resolve(p)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := resolved.Complete(p)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestComplete: what is added, and that it is added to what was asked for.
func TestComplete(t *testing.T) {
	write, read := cage.Grants{Write: []string{"w"}}, cage.Grants{Read: []string{"w"}}
	policy := cage.Policy{Forbidden: []string{"w/state", "none"}, Programs: []string{"w/pi", "none"}}
	for _, test := range []struct {
		name   string
		files  string
		give   cage.Grants
		added  cage.Grants
		policy cage.Policy
	}{
		{name: "nothing known", files: "w/f w/git/hooks/f w/config w/hooks w/credentials", give: write},
		{name: "credentials", files: "w/u/.ssh/id w/u/.config/gh/hosts w/u/.config/other w/.netrc w/.docker/config.json w/.docker/other w/config.json", give: read,
			added: cage.Grants{Denied: []string{"w/.netrc", "w/.docker/config.json", "w/u/.ssh", "w/u/.config/gh"}}},
		{name: "credentials by pattern", files: "w/.cargo/credentials.toml w/.cargo/config.toml w/.bash_history w/order_history w/.x_history/f", give: write,
			added: cage.Grants{Denied: []string{"w/.bash_history", "w/.cargo/credentials.toml"}}},
		{name: "nothing outside the grant", files: "w/f .ssh/id wx/.ssh/id", give: write},
		{name: "longer names", files: "w/.sshx/id w/x.ssh/id w/.envrc.example", give: write},
		{name: "scripts", files: "w/.envrc w/d/.vscode/tasks.json w/.bashrc w/.mcp.json w/.config/fish/f", give: write,
			added: cage.Grants{Read: []string{"w/.bashrc", "w/.envrc", "w/.mcp.json", "w/.config/fish", "w/d/.vscode"}}},
		{name: "scripts are readable", files: "w/.envrc", give: read},
		{name: "scripts in a write grant inside a read grant", files: "w/.envrc w/in/.envrc", give: cage.Grants{Read: []string{"w"}, Write: []string{"w/in"}},
			added: cage.Grants{Read: []string{"w/in/.envrc"}}},
		{name: "a repository", files: "w/.git/hooks/f w/.git/config w/.git/HEAD w/.git/objects/hooks/f", give: write,
			added: cage.Grants{Read: []string{"w/.git/config", "w/.git/hooks"}}},
		{name: "a nested repository", files: "w/a/b/c/.git/config", give: write, added: cage.Grants{Read: []string{"w/a/b/c/.git/config"}}},
		{name: "a submodule", files: "w/sub/.git w/.git/modules/a/b/HEAD w/.git/modules/a/b/objects/ w/.git/modules/a/b/refs/ w/.git/modules/a/b/hooks/f w/.git/modules/a/b/config", give: write,
			added: cage.Grants{Read: []string{"w/sub/.git", "w/.git/modules/a/b/config", "w/.git/modules/a/b/hooks"}}},
		{name: "a worktree", files: "w/.git/worktrees/x/HEAD w/.git/worktrees/x/commondir w/.git/worktrees/x/config.worktree", give: write,
			added: cage.Grants{Read: []string{"w/.git/worktrees/x/commondir", "w/.git/worktrees/x/config.worktree"}}},
		{name: "a bare repository", files: "w/bare/HEAD w/bare/objects/ w/bare/refs/ w/bare/config w/bare/hooks/f", give: write,
			added: cage.Grants{Read: []string{"w/bare/config", "w/bare/hooks"}}},
		{name: "the grant is the git directory", files: "w/.git/config", give: cage.Grants{Write: []string{"w/.git"}},
			added: cage.Grants{Read: []string{"w/.git/config"}}},
		{name: "installed packages", files: "w/node_modules/x/.vscode/f w/src/node_modules/.npmrc", give: write},
		{name: "named", files: "w/.envrc w/.npmrc w/.git/config", give: cage.Grants{Write: []string{"w", "w/.envrc", "w/.git/config"}, Read: []string{"w/.npmrc"}}},
		{name: "named alone", files: "w/.ssh/id", give: cage.Grants{Read: []string{"w/.ssh"}}},
		{name: "denied already", files: "w/d/.ssh/id w/d/.envrc", give: cage.Grants{Write: []string{"w"}, Denied: []string{"w/d"}}},
		{name: "the server's own in a read grant", files: "w/state/db w/pi/cli w/.ssh/id", give: read, policy: policy,
			added: cage.Grants{Denied: []string{"w/.ssh", "w/state"}}},
		{name: "the server's programs in a write grant", files: "w/pi/cli", give: write, policy: cage.Policy{Programs: []string{"w/pi"}},
			added: cage.Grants{Read: []string{"w/pi"}}},
		{name: "the server's own, not shown", files: "w/state/db w/pi/cli w/d/f", give: cage.Grants{Read: []string{"w/d"}}, policy: policy},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := tree(t, strings.Fields(test.files)...)
			p := cage.Policy{Forbidden: under(root, cage.Grants{Read: test.policy.Forbidden}).Read, Programs: under(root, cage.Grants{Read: test.policy.Programs}).Read}
			rules := complete(t, under(root, test.give), p)
			if diff := cmp.Diff(under(root, test.added), rules.Automatic); diff != "" {
				t.Error(diff)
			}
			all := under(root, test.give)
			all.Read = append(all.Read, rules.Automatic.Read...)
			all.Denied = append(all.Denied, rules.Automatic.Denied...)
			want, err := all.Resolve(cage.Policy{})
			if diff := cmp.Diff(want, rules.Grants); diff != "" || err != nil {
				t.Error(diff, err)
			}
			noMore(t, root, rules.Grants, under(root, test.give))
		})
	}
}

// noMore checks that nothing in root is opened further by got than by asked.
func noMore(t *testing.T, root string, got, asked cage.Grants) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if have, may := access(got, path), access(asked, path); rank(have) > rank(may) {
			t.Errorf("%s: %s, asked for %s", path, have, may)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCompleteWarns: one sentence for what a caller could be surprised by.
func TestCompleteWarns(t *testing.T) {
	root := tree(t, "w/.npmrc", "w/.envrc", "w/.aws/credentials", "w/scripts/env", "plain/f", "links/f")
	link(t, "env", root+"/w/scripts/.envrc")
	rules := complete(t, under(root, cage.Grants{Write: []string{"w", "w/.envrc"}, Read: []string{"links"}}), cage.Policy{})
	for i, want := range []string{
		"denied automatically, because credentials are kept there: " + root + "/w/.aws, " + root + "/w/.npmrc;",
		"only because a grant names it: " + root + "/w/.envrc",
		"the agent can replace these symlinks",
	} {
		if i >= len(rules.Warnings) || !strings.Contains(rules.Warnings[i], want) {
			t.Errorf("warnings %q, want %q in place %d", rules.Warnings, want, i)
		}
	}
	if want := []string{root + "/w/scripts/env"}; !cmp.Equal(rules.Automatic.Read, want) {
		t.Errorf("read-only %q, want what the symlink leads to", rules.Automatic.Read)
	}
	if err := unix.Mkfifo(root+"/plain/.envrc", 0o600); err != nil {
		t.Fatal(err)
	}
	rules = complete(t, under(root, cage.Grants{Write: []string{"plain"}}), cage.Policy{})
	if len(rules.Warnings) > 0 || len(rules.Automatic.Read) > 0 {
		t.Errorf("control: %q, %q", rules.Warnings, rules.Automatic)
	}
}

// TestCompleteHole: a grant inside what is masked cannot be given, unless what is
// masked is granted by name too.
func TestCompleteHole(t *testing.T) {
	root := tree(t, "w/.claude/commands/f", "w/.vscode/f")
	for _, test := range []struct {
		grants cage.Grants
		why    string
	}{
		{cage.Grants{Write: []string{"w", "w/.claude/commands"}}, "name that path in write as well"},
		{cage.Grants{Write: []string{"w", "w/.claude", "w/.claude/commands"}}, ""},
		{cage.Grants{Write: []string{"w/.claude/commands"}}, ""},
		{cage.Grants{Write: []string{"w", "w/.vscode/f"}}, ""},
	} {
		g, err := under(root, test.grants).Resolve(cage.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Complete(cage.Policy{})
		refused, ok := errors.AsType[*cage.GrantError](err)
		switch {
		case test.why == "" && err != nil:
			t.Errorf("%q: %v", test.grants.Write, err)
		case test.why != "" && (!ok || refused.Arg != "write" || !strings.Contains(refused.Reason, test.why)):
			t.Errorf("%q: %v", test.grants.Write, err)
		}
	}
}

// TestCompleteBounds: a tree of any size is searched no further than said.
func TestCompleteBounds(t *testing.T) {
	var projects, homes []string
	for i := range 210 {
		projects = append(projects, fmt.Sprintf("projects/%03d/.envrc", i))
		homes = append(homes, fmt.Sprintf("homes/%03d/.netrc", i))
	}
	root := tree(t, append(projects, homes...)...)
	rules := complete(t, under(root, cage.Grants{Write: []string{"projects"}}), cage.Policy{})
	if n := len(rules.Automatic.Read); n < 100 || n > 400 || len(rules.Warnings) != 1 || !strings.Contains(rules.Warnings[0], "not made read-only") {
		t.Errorf("%d are read-only, %q", n, rules.Warnings)
	}
	g, err := under(root, cage.Grants{Write: []string{"homes"}}).Resolve(cage.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Complete(cage.Policy{}); err == nil || !strings.Contains(err.Error(), "too many places with credentials") {
		t.Errorf("credentials beyond the bound: %v", err)
	}
}

func TestCompleteManyFiles(t *testing.T) {
	root := tree(t, "w/a/.ssh/id", "w/b/c/.ssh/id", "w/b/c/d/.ssh/id")
	g := resolve(t, under(root, cage.Grants{Read: []string{"w"}}))
	for _, test := range []struct {
		entries, found int
		told           bool
	}{{4, 1, true}, {5, 2, true}, {20, 3, false}} {
		rules, err := cage.CompleteWithin(g, test.entries)
		if err != nil {
			t.Fatal(err)
		}
		told := len(rules.Warnings) > 0 && strings.Contains(rules.Warnings[0], "too many files to be searched")
		if len(rules.Automatic.Denied) != test.found || told != test.told {
			t.Errorf("%d entries: denied %q, warnings %q", test.entries, rules.Automatic.Denied, rules.Warnings)
		}
	}
}

// TestHardLinks: the same file under another name is told of.
func TestHardLinks(t *testing.T) {
	for _, test := range []struct {
		name, link string
		give       cage.Grants
		warns      bool
	}{
		{"a denied file", "w/secret", cage.Grants{Write: []string{"w"}, Denied: []string{"w/secret"}}, true},
		{"a file in a denied directory", "w/d/secret", cage.Grants{Write: []string{"w"}, Denied: []string{"w/d"}}, true},
		{"a denied file outside the grants", "other/secret", cage.Grants{Write: []string{"w"}, Denied: []string{"other/secret"}}, true},
		{"a read-only file in a write grant", "w/d/secret", cage.Grants{Write: []string{"w"}, Read: []string{"w/d"}}, true},
		{"an automatic rule", "w/.git/config", cage.Grants{Write: []string{"w"}}, true},
		{"a program of the server's", "w/pi/cli", cage.Grants{Write: []string{"w"}}, false},
		{"a read grant", "w/secret", cage.Grants{Read: []string{"w"}}, false},
		{"a file without a rule", "w/secret", cage.Grants{Write: []string{"w"}, Denied: []string{"w/d"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := tree(t, "w/secret", "w/d/secret", "w/.git/config", "w/pi/cli", "other/secret", "names/")
			p := cage.Policy{Programs: []string{root + "/w/pi"}}
			g := under(root, test.give)
			before := complete(t, g, p)
			if err := os.Link(root+"/"+test.link, root+"/names/second"); err != nil {
				t.Fatal(err)
			}
			after := complete(t, g, p)
			if n := len(after.Warnings) - len(before.Warnings); len(before.Warnings) != 0 || n != 0 != test.warns {
				t.Errorf("before %q, after %q", before.Warnings, after.Warnings)
			}
		})
	}
}

// TestAutomaticInCage asks the kernel: each script fails with the completed rules
// and succeeds with those that were asked for.
func TestAutomaticInCage(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, script := range []string{
		"cat w/u/.ssh/id", "ls w/u/.ssh", "mv w/u w/v", "rm -r w/u/.ssh",
		"echo x >w/.envrc", "mv w/other w/.envrc", "rm w/.envrc",
		"echo x >w/.git/hooks/pre-commit", "mv w/.git w/git", "rm -r w/.git/hooks", "git -C w config core.hooksPath /tmp",
		"echo x >w/pi/cli",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			for _, ok := range []bool{false, true} {
				root, policy := project(t)
				rules := complete(t, under(root, cage.Grants{Write: []string{"w"}}), policy)
				spec := cage.Spec{Grants: rules.Grants}
				if ok {
					spec.Grants = resolve(t, under(root, cage.Grants{Write: []string{"w"}}))
				}
				r := shell(t, b, spec, "cd "+root+" && "+script)
				if (r.Exit.Code == 0) != ok {
					t.Errorf("exit %d, want ok %v: %s", r.Exit.Code, ok, r.Stderr)
				}
			}
		})
	}
	root, policy := project(t)
	spec := cage.Spec{Grants: complete(t, under(root, cage.Grants{Write: []string{"w"}}), policy).Grants}
	output(t, b, spec, "cd "+root+"/w && echo x >other && cat .envrc pi/cli .git/config && "+
		"git add other && git -c user.name=a -c user.email=b commit -qm c && git checkout -qb branch")
}

// project makes a repository with everything that is closed automatically.
func project(t *testing.T) (root string, p cage.Policy) {
	t.Helper()
	root = tree(t, "w/u/.ssh/id", "w/.envrc", "w/other", "w/pi/cli")
	git := fmt.Sprintf("git init -q %[1]s/w && mkdir -p %[1]s/w/.git/hooks", root)
	output(t, open(t), cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root}})}, git)
	return root, cage.Policy{Programs: []string{root + "/w/pi"}}
}

// BenchmarkComplete600 is what 600 rules of the caller's own add to a start.
func BenchmarkComplete600(b *testing.B) {
	var names []string
	for i := range 600 {
		names = append(names, fmt.Sprintf("w/%d", i))
	}
	root := tree(b, names...)
	g := under(root, cage.Grants{Write: []string{"w"}, Denied: names})
	for b.Loop() {
		resolved, err := g.Resolve(cage.Policy{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := resolved.Complete(cage.Policy{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkComplete(b *testing.B) {
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("w/%02d/%02d/%04d", i%10, i/10%20, i))
	}
	root := tree(b, append(names, "w/.git/config", "w/.git/hooks/f", "w/.envrc")...)
	g := resolve(b, under(root, cage.Grants{Write: []string{"w"}}))
	for b.Loop() {
		if _, err := g.Complete(cage.Policy{}); err != nil {
			b.Fatal(err)
		}
	}
}
