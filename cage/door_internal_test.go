package cage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestDoor: between two servers the rules are those of the gate, and who is in the way
// is named. What has left or died is not.
func TestDoor(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first := Grants{Write: []string{"/w\xff"}, Denied: []string{"/w\xff/no"}}
	for _, test := range []struct {
		other Grants
		waits bool
	}{
		{Grants{}, false},
		{Grants{Write: []string{"/x"}, Read: []string{"/x/r"}}, false},
		{Grants{Write: []string{"/w\xff"}}, true},
		{Grants{Read: []string{"/w\xff"}}, false},
	} {
		dir := t.TempDir()
		a, b := newDoor(t, dir), newDoor(t, dir)
		leave, err := a.enter(t.Context(), newPassage(first))
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.enter(ended, newPassage(test.other))
		if waits := errors.Is(err, context.Canceled); waits != test.waits {
			t.Errorf("%v: waits %v, want %v", test.other, waits, test.waits)
		}
		if test.waits {
			err := b.locked(func() error { return b.sweep(newPassage(test.other)) })
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
				t.Errorf("%v: %v", test.other, err)
			}
			leave()
			if second, err = b.enter(t.Context(), newPassage(test.other)); err != nil {
				t.Fatal(err)
			}
		} else {
			leave()
		}
		second()
		empty(t, b)
	}
}

// TestDoorDead: the file of a server that died without a word is removed, at the next
// start and when the next server opens.
func TestDoorDead(t *testing.T) {
	dir := t.TempDir()
	d := newDoor(t, dir)
	left := filepath.Join(d.dir, "1"+ticketExt)
	p := newPassage(Grants{Write: []string{"/w"}, Denied: []string{"/w/no"}})
	for _, next := range []func(){
		func() { newDoor(t, dir) },
		func() {
			leave, err := d.enter(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		},
	} {
		if err := os.WriteFile(left, []byte(`{"PID":1,"Writes":["L3c="]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		next()
		empty(t, d)
	}
	// One whose lock is still held, by what the server was about to execute.
	for text, stays := range map[string]bool{
		fmt.Sprintf(`{"PID":%d,"Start":1,"Boot":%q,"Space":%q}`, os.Getpid(), BootID(), space()): false,
		fmt.Sprintf(`{"PID":%d,"Start":1,"Boot":%q,"Space":"pid:[1]"}`, os.Getpid(), BootID()):   true,
		`{"PID":`: false,
	} {
		if err := os.WriteFile(left, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(left)
		if err != nil {
			t.Fatal(err)
		}
		if held, err := flock(f); !held || err != nil {
			t.Fatal(held, err)
		}
		newDoor(t, dir)
		if _, err := os.Stat(left); (err == nil) != stays {
			t.Errorf("%s: %v", text, err)
		}
		f.Close()
	}
}

// TestDoorMany: of many starts in one directory, from several servers, one is under
// way at a time.
func TestDoorMany(t *testing.T) {
	dir := t.TempDir()
	p := newPassage(Grants{Write: []string{"/w"}, Denied: []string{"/w/no"}})
	var inside sync.Mutex // also protects entered
	var starts sync.WaitGroup
	entered := 0
	doors := []*door{newDoor(t, dir), newDoor(t, dir), newDoor(t, dir)}
	for n := range 12 {
		starts.Go(func() {
			leave, err := doors[n%len(doors)].enter(t.Context(), p)
			if err != nil {
				t.Error(err)
				return
			}
			defer leave()
			if !inside.TryLock() {
				t.Error("two at a time")
				return
			}
			entered++
			runtime.Gosched()
			inside.Unlock()
		})
	}
	starts.Wait()
	if entered != 12 {
		t.Errorf("%d entered", entered)
	}
	empty(t, doors[0])
}

func newDoor(t *testing.T, state string) *door {
	t.Helper()
	d, err := openDoor(state)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// empty fails the test when a start's file is left.
func empty(t *testing.T, d *door) {
	t.Helper()
	if left, err := filepath.Glob(d.dir + "/*" + ticketExt); len(left) > 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
}
