package cage_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/cage"
)

// TestNarrow has a parent's rules, a child's, and what the child then has. Each
// refusal says why; the rows around it are its controls.
func TestNarrow(t *testing.T) {
	parent := cage.Grants{
		Write:  []string{"/p", "/p/ro/rw"},
		Read:   []string{"/d", "/p/ro", "/p/x/config"},
		Denied: []string{"/p/no", "/d/no", "/elsewhere"},
	}
	w := func(paths ...string) cage.Grants { return cage.Grants{Write: paths} }
	r := func(paths ...string) cage.Grants { return cage.Grants{Read: paths} }
	for _, test := range []struct {
		name       string
		child, get cage.Grants
		refused    string
	}{
		{name: "nothing"},
		{name: "the parent's own", child: w("/p"), get: cage.Grants{Write: []string{"/p"}, Read: []string{"/p/ro", "/p/x/config"}, Denied: []string{"/p/no"}}},
		{name: "write a part", child: w("/p/a"), get: w("/p/a")},
		{name: "read what may be written", child: r("/p"), get: cage.Grants{Read: []string{"/p"}, Denied: []string{"/p/no"}}},
		{name: "read a part", child: r("/d/a"), get: r("/d/a")},
		{name: "a read-only path in a part", child: w("/p/x"), get: cage.Grants{Write: []string{"/p/x"}, Read: []string{"/p/x/config"}}},
		{name: "deny more", child: cage.Grants{Write: []string{"/p/a"}, Denied: []string{"/p/a/b", "/anywhere"}},
			get: cage.Grants{Write: []string{"/p/a"}, Denied: []string{"/anywhere", "/p/a/b"}}},
		{name: "deny what is denied", child: cage.Grants{Read: []string{"/d"}, Denied: []string{"/d/no"}}, get: cage.Grants{Read: []string{"/d"}, Denied: []string{"/d/no"}}},
		{name: "deny around what is denied", child: cage.Grants{Write: []string{"/p"}, Denied: []string{"/p/no", "/p/x"}},
			get: cage.Grants{Write: []string{"/p"}, Read: []string{"/p/ro"}, Denied: []string{"/p/no", "/p/x"}}},
		{name: "write below a read-only path", child: w("/p/ro/rw/a"), get: w("/p/ro/rw/a")},
		{name: "write around a write path in a read-only one", child: cage.Grants{Read: []string{"/p/ro"}, Write: []string{"/p/ro/rw"}},
			get: cage.Grants{Read: []string{"/p/ro"}, Write: []string{"/p/ro/rw"}}},

		{name: "everything", child: r("/"), refused: "more than the calling agent was granted"},
		{name: "above a grant", child: w("/p", "/"), refused: "more than the calling agent was granted"},
		{name: "elsewhere", child: r("/q"), refused: "has no grant for it"},
		{name: "a longer name", child: r("/px"), refused: "has no grant for it"},
		{name: "a shorter name", child: r("/p2"), refused: "has no grant for it"},
		{name: "write what may be read", child: w("/d"), refused: "may only read /d; ask for read"},
		{name: "write below what may be read", child: w("/d/a/b"), refused: "may only read /d; ask for read"},
		{name: "write a read-only path", child: w("/p/ro"), refused: "may only read /p/ro"},
		{name: "write below a read-only path, by name", child: w("/p", "/p/x/config"), refused: "may only read /p/x/config"},
		{name: "a denied path", child: r("/p/no"), refused: "/p/no is denied to the calling agent"},
		{name: "below a denied path", child: r("/d/no/a"), refused: "/d/no is denied to the calling agent"},
		{name: "a denied path outside", child: r("/elsewhere/a"), refused: "/elsewhere is denied to the calling agent"},
		{name: "a grant inside the child's own denied path", child: cage.Grants{Write: []string{"/p/a/b"}, Denied: []string{"/p/a"}}, refused: "inside the denied path /p/a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := cage.Narrow(test.child, parent)
			if test.refused != "" {
				refused, ok := errors.AsType[*cage.GrantError](err)
				if !ok || !strings.Contains(refused.Reason, test.refused) || !slices.Contains(append(test.child.Write, test.child.Read...), refused.Path) {
					t.Errorf("error %v, want %q", err, test.refused)
				}
				return
			}
			if diff := cmp.Diff(test.get, got); err != nil || diff != "" {
				t.Error(diff, err)
			}
		})
	}
	if _, err := cage.Narrow(r("/d"), cage.Grants{}); err == nil {
		t.Error("a parent without grants gives some")
	}
}

// access is what grants say about a path, worked out without the package: the
// nearest rule, unless anything above denies.
func access(g cage.Grants, path string) string {
	found := "nothing"
	for dir := path; ; dir = filepath.Dir(dir) {
		switch {
		case slices.Contains(g.Denied, dir):
			return "nothing"
		case found != "nothing":
		case slices.Contains(g.Read, dir):
			found = "read"
		case slices.Contains(g.Write, dir):
			found = "write"
		}
		if dir == "/" {
			return found
		}
	}
}

func rank(access string) int { return slices.Index([]string{"nothing", "read", "write"}, access) }

// randomGrants draws from few names, so that rules meet often.
func randomGrants(r *rand.Rand) (g cage.Grants) {
	for range r.IntN(6) {
		path := ""
		for range 1 + r.IntN(4) {
			path += "/" + []string{"a", "b", "ab", ".git"}[r.IntN(4)]
		}
		list := []*[]string{&g.Write, &g.Write, &g.Read, &g.Denied}[r.IntN(4)]
		*list = append(*list, path)
	}
	return g
}

// everyPath is every path that randomGrants could draw.
func everyPath() (all []string) {
	level := []string{""}
	for range 4 {
		var next []string
		for _, dir := range level {
			for _, name := range []string{"a", "b", "ab", ".git"} {
				next = append(next, dir+"/"+name)
			}
		}
		all, level = append(all, next...), next
	}
	return append(all, "/")
}

// TestNarrowProperties: what is narrowed allows nothing that the parent or the
// child's own request does not, and is narrow already; so it stays within every
// ancestor.
func TestNarrowProperties(t *testing.T) {
	paths, narrowed := everyPath(), 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 3))
		parent, child := randomGrants(r), randomGrants(r)
		if seed%2 == 0 { // or hardly any child would be accepted
			parent.Write = append(parent.Write, "/a", "/b", "/ab", "/.git")
		}
		got, err := cage.Narrow(child, parent)
		if err != nil {
			continue
		}
		narrowed++
		for _, path := range paths {
			have := rank(access(got, path))
			if have > rank(access(parent, path)) || have > rank(access(child, path)) {
				t.Fatalf("seed %d: %s is %s, for the parent %s, asked for %s\nparent %q\nchild %q\ngot %q", seed, path,
					access(got, path), access(parent, path), access(child, path), parent, child, got)
			}
		}
		again, err := cage.Narrow(got, parent)
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Fatalf("seed %d: narrowed again: %v %s\nparent %q\nchild %q", seed, err, diff, parent, child)
		}
	}
	if narrowed < 1000 {
		t.Errorf("only %d of the draws were accepted", narrowed)
	}
}

// TestNarrowResolved goes the whole way, from what a child asks for on a real file
// system to what it gets.
func TestNarrowResolved(t *testing.T) {
	root := tree(t, "p/a/f", "p/no/f", "p/.npmrc", "p/.git/config", "px/f", "outside/f", "agents/1/tmp/f")
	link(t, root+"/outside", root+"/p/out")
	link(t, "a", root+"/p/in")
	policy := cage.Policy{Forbidden: []string{root + "/agents"}}
	parent := complete(t, under(root, cage.Grants{Write: []string{"p"}, Denied: []string{"p/no"}}), policy).Grants
	for _, test := range []struct {
		name   string
		child  cage.Grants
		access map[string]string
		ok     bool
	}{
		{name: "a symlink to inside", child: cage.Grants{Write: []string{"p/in"}}, ok: true, access: map[string]string{"p/a": "write", "p": "nothing"}},
		{name: "all of it", child: cage.Grants{Write: []string{"p"}}, ok: true,
			access: map[string]string{"p/a": "write", "p/no": "nothing", "p/.npmrc": "nothing", "p/.git/config": "read"}},
		{name: "a symlink to outside", child: cage.Grants{Read: []string{"p/out"}}},
		{name: "what holds the grant", child: cage.Grants{Read: []string{"."}}},
		{name: "a longer name", child: cage.Grants{Read: []string{"px"}}},
		{name: "the root", child: cage.Grants{Read: []string{"/"}}},
		{name: "below a denied path", child: cage.Grants{Read: []string{"p/no/f"}}},
		{name: "its parent's own tmp", child: cage.Grants{Read: []string{"agents/1/tmp"}}},
		{name: "denied to its parent automatically", child: cage.Grants{Read: []string{"p", "p/.npmrc"}}},
		{name: "read-only to its parent automatically", child: cage.Grants{Write: []string{"p/.git/config"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			child, err := under(root, test.child).Resolve(policy)
			if err == nil {
				child, err = cage.Narrow(child, parent)
			}
			if _, refused := errors.AsType[*cage.GrantError](err); refused == test.ok || err != nil && !refused {
				t.Fatalf("error %v, want ok %v", err, test.ok)
			}
			if err != nil {
				return
			}
			got := complete(t, child, policy).Grants
			noMore(t, root, got, parent)
			for path, want := range test.access {
				if have := access(got, root+"/"+path); have != want {
					t.Errorf("%s: %s, want %s", path, have, want)
				}
			}
		})
	}
}
