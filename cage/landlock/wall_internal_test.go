package landlock

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestOf: no version is asked for what it does not know, and what it knows is used.
func TestOf(t *testing.T) {
	const (
		first  = 0x1fff &^ (unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR)
		second = first | unix.LANDLOCK_ACCESS_FS_REFER
		third  = second | unix.LANDLOCK_ACCESS_FS_TRUNCATE
		fifth  = third | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	)
	for abi, want := range map[int]Wall{
		-1: {}, 0: {}, 1: {}, 2: {fs: second}, 3: {fs: third}, 4: {fs: third}, 5: {fs: fifth},
		6: {fs: fifth, scoped: scopes}, 7: {fs: fifth, scoped: scopes}, 9: {fs: fifth, scoped: scopes}, 99: {fs: fifth, scoped: scopes},
	} {
		if got := Of(abi); got != want {
			t.Errorf("ABI %d: %+v, want %+v", abi, got, want)
		}
	}
}

// TestAllowed: a place is given what fits it; the kernel refuses rights that only a
// directory can have for a file.
func TestAllowed(t *testing.T) {
	const file = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	for _, tc := range []struct {
		abi   int
		place Place
		want  uint64
	}{
		{1, Place{Dir: true, Create: true}, 0},
		{3, Place{}, file},
		{3, Place{Create: true}, file},
		{3, Place{Dir: true}, file},
		{5, Place{Dir: true}, file | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		{2, Place{Dir: true, Create: true}, create | unix.LANDLOCK_ACCESS_FS_WRITE_FILE},
		{5, Place{Dir: true, Create: true}, create | change},
	} {
		if got := Of(tc.abi).allowed(tc.place); got != tc.want {
			t.Errorf("ABI %d, %+v: %#x, want %#x", tc.abi, tc.place, got, tc.want)
		}
	}
	if got := Of(99).allowed(Place{Dir: true, Create: true}); got&devices != 0 {
		t.Errorf("devices can be made: %#x", got)
	}
}
