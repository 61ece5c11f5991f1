package cageinit

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/landlock"
)

// A Wall is the program's second one, made of the kernel's Landlock. It is not this
// process's own.
type Wall struct {
	ABI   int   `json:",omitempty"` // the version to make it with; 0: no wall
	Write []Raw `json:",omitempty"` // where everything may be written: mounts of the cage
	Files []Raw `json:",omitempty"` // where files that are there may be
}

// around runs f behind the wall, and with it what f starts. The thread that has gone
// behind it ends, for there is no way back.
func (w Wall) around(f func() error) error {
	if w.ABI == 0 {
		return f()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and no unlocking: so the thread ends with this goroutine
		err := w.enforce()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func (w Wall) enforce() error {
	var places []landlock.Place
	defer func() {
		for _, p := range places {
			unix.Close(p.FD)
		}
	}()
	for i, path := range append(w.Write[:len(w.Write):len(w.Write)], w.Files...) {
		fd, err := walk(string(path))
		if err != nil {
			return fmt.Errorf("cannot wall in the program at %s: %w", path, err)
		}
		places = append(places, landlock.Place{FD: fd, Create: i < len(w.Write)})
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return fmt.Errorf("cannot wall in the program at %s: %w", path, err)
		}
		places[i].Dir = stat.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return landlock.Of(w.ABI).Enforce(places)
}
