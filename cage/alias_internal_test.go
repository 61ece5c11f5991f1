package cage

import (
	"slices"
	"testing"
)

// TestTwins has a table of mounts in which some hide others.
func TestTwins(t *testing.T) {
	table := parseMounts(`1 0 0:1 / / rw - rootfs rootfs rw
20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:5 / /proc rw - proc proc rw
22 20 8:2 / /home rw - ext4 /dev/sda2 rw
23 20 8:2 /u/secret /srv/a\040b rw - ext4 /dev/sda2 rw
24 20 8:2 /u /srv/hidden/deep rw - ext4 /dev/sda2 rw
25 20 0:9 / /srv/hidden rw - tmpfs tmpfs rw
26 20 8:2 / /mnt rw - ext4 /dev/sda2 rw
27 26 0:9 / /mnt/u rw - tmpfs tmpfs rw
28 20 8:2 /u/secret/in /srv/part rw - ext4 /dev/sda2 rw
garbage
`)
	for _, test := range []struct {
		path string
		want []string
	}{
		{"/home/u/secret", []string{"/srv/a b", "/srv/part"}},
		{"/home/u/secret/in/f", []string{"/srv/a b/in/f", "/srv/part/f"}},
		{"/home/u/secrets", nil},
		{"/home/v", []string{"/mnt/v"}},
		{"/srv/part", []string{"/home/u/secret/in", "/srv/a b/in"}},
		{"/usr", nil},
	} {
		got := table.twins(test.path)
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.path, got, test.want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for give, want := range map[string]string{
		`/a`: "/a", `/a\040b\011\012\134c`: "/a b\t\n\\c", `\`: `\`, `\9`: `\9`, `\999`: `\999`, `a\134040`: `a\040`,
	} {
		if got := unescape(give); got != want {
			t.Errorf("%s: %q, want %q", give, got, want)
		}
	}
}
