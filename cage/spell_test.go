package cage_test

import (
	"os"
	"slices"
	"testing"

	"pi-mcp/cage"
)

// TestSpellings: a grant is found as it was asked for, through the host's symlinks, and
// where it really is. A symlink that leads elsewhere by the start shows nothing.
func TestSpellings(t *testing.T) {
	t.Parallel()
	root := tree(t, "real/sub/f", "real/g", "read/h", "other/secret", "links/")
	link := func(to, name string) {
		t.Helper()
		os.Remove(root + name)
		if err := os.Symlink(root+to, root+name); err != nil {
			t.Fatal(err)
		}
	}
	link("/real", "/links/dir")
	link("/read/h", "/links/file")
	link("/real", "/real/in")
	asked := cage.Grants{
		Write: []string{root + "/links/dir/", root + "/links/dir/sub", root + "/real/in"},
		Read:  []string{root + "/links/file"}, Denied: []string{root + "/links/dir/g"},
	}
	spellings := asked.Spellings()
	want := []string{root + "/links/dir", root + "/links/dir/sub", root + "/links/file", root + "/real/in"}
	if !slices.Equal(spellings, want) {
		t.Errorf("spellings %q, want %q", spellings, want)
	}
	b := open(t)
	grants := resolve(t, asked)
	spec := cage.Spec{Grants: grants, Spellings: spellings}
	script := "cd " + root + " && cat links/dir/sub/f links/file real/sub/f && touch links/dir/made && ls links && readlink -n links/dir && cat real/in/sub/f"
	const all = "real/sub/fread/hreal/sub/fdir\nfile\n"
	if got := output(t, b, spec, script); got != all+root+"/realreal/sub/f" {
		t.Errorf("in the cage: %q", got)
	}
	if _, err := os.Stat(root + "/real/made"); err != nil {
		t.Error(err)
	}
	if r := shell(t, b, cage.Spec{Grants: grants}, "cat "+root+"/links/file"); r.Exit.Code == 0 {
		t.Error("the control: without the spelling it is there, too")
	}
	if r := shell(t, b, spec, "cat "+root+"/links/dir/g || ln -sfn /etc "+root+"/links/dir"); r.Exit.Code == 0 {
		t.Error("what is denied can be read, or the symlink can be changed")
	}
	link("/other", "/links/dir")
	if got := output(t, b, spec, "ls "+root+"/links"); got != "file" {
		t.Errorf("after the symlink was changed: %q", got)
	}
}
