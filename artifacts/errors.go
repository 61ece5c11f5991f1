package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// ErrForeign is part of an error about a directory that does not carry the marker
// of the store: it is not touched.
var ErrForeign = errors.New("it does not carry this database's marker")

// An ArgError is a refusal of something that the caller passed in. Arg is the
// name of the tool argument at fault and Reason says what is wrong with it and
// what to pass instead. Every other error of this package is a failure of the
// machine.
type ArgError struct{ Arg, Reason string }

func (e *ArgError) Error() string { return e.Arg + ": " + e.Reason }

func refuse(arg, format string, v ...any) error {
	return &ArgError{arg, fmt.Sprintf(format, v...)}
}

// refusePath puts into words why a path below an agent's tmp could not be
// used. What an agent did to its own tree is never a failure of the machine,
// except for running out of something.
func refusePath(arg, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(arg, "%q does not exist in the agent's tmp; list_tmp shows what does", path)
	case errors.Is(err, fs.ErrPermission):
		return refuse(arg, "%q is closed to the server: the agent took away the permission to read it", path)
	case errors.Is(err, syscall.ELOOP):
		return refuse(arg, "%q is a loop of symbolic links; name a real file", path)
	case errors.Is(err, syscall.ENXIO):
		return refuse(arg, "%q is a socket or a device; only regular files can be read", path)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EIO):
		return fmt.Errorf("cannot open %q: %w", path, err)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return refuse(arg, "%q cannot be used (%v); name a file below the agent's tmp: "+
		"links that are absolute or lead out of it are not followed", path, err)
}
