package cage

import (
	"context"
	"errors"
	"testing"
)

func TestGate(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name         string
		first, other Grants
		waits        bool
	}{
		{"nothing", Grants{}, Grants{}, false},
		{"the same root, nothing inside", Grants{Write: []string{"/w"}}, Grants{Write: []string{"/w"}}, false},
		{"a mask inside", Grants{Write: []string{"/w"}, Denied: []string{"/w/no"}}, Grants{Write: []string{"/w"}}, true},
		{"a read-only path inside", Grants{Write: []string{"/w"}, Read: []string{"/w/r"}}, Grants{Write: []string{"/w"}}, true},
		{"written from above", Grants{Write: []string{"/a/w"}, Denied: []string{"/a/w/no"}}, Grants{Write: []string{"/a"}}, true},
		{"written further down", Grants{Write: []string{"/w"}, Denied: []string{"/w/no"}}, Grants{Write: []string{"/w/d"}}, true},
		{"only read", Grants{Write: []string{"/w"}, Denied: []string{"/w/no"}}, Grants{Read: []string{"/w"}}, false},
		{"a sibling", Grants{Write: []string{"/w"}, Denied: []string{"/w/no"}}, Grants{Write: []string{"/wx"}}, false},
		{"a mask elsewhere", Grants{Write: []string{"/w"}, Read: []string{"/r"}, Denied: []string{"/r/no"}}, Grants{Write: []string{"/w"}}, false},
	} {
		for _, pair := range [][2]Grants{{test.first, test.other}, {test.other, test.first}} {
			var g gate
			leave, err := g.enter(t.Context(), newPassage(pair[0]))
			if err != nil {
				t.Fatal(err)
			}
			second, err := g.enter(ended, newPassage(pair[1]))
			if waits := errors.Is(err, context.Canceled); waits != test.waits {
				t.Errorf("%s: waits %v, want %v", test.name, waits, test.waits)
			}
			entered := make(chan func())
			if err != nil {
				go func() { // it may come before or after the other leaves
					second, _ := g.enter(t.Context(), newPassage(pair[1]))
					entered <- second
				}()
			}
			leave()
			if err != nil {
				second = <-entered
			}
			second()
			if len(g.inside) != 0 {
				t.Errorf("%s: %d are left inside", test.name, len(g.inside))
			}
		}
	}
}
