package cageinit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Confinement is what bubblewrap was told to do to what it executes, beside the
// mounts. All of it is this process's own state by then, and what the program inherits.
type Confinement struct {
	Outside     []Namespace // the server's, none of which may be the cage's
	Unix, Debug bool        // what the filter lets through
}

// A Namespace is one of the kernel's, of a kind such as "net".
type Namespace struct {
	Kind     string
	Dev, Ino uint64
}

// NamespaceOf returns the calling process's own namespace of that kind.
func NamespaceOf(kind string) (Namespace, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/ns/"+kind, &stat); err != nil {
		return Namespace{}, fmt.Errorf("cannot tell which %s namespace this is: %w", kind, err)
	}
	return Namespace{kind, stat.Dev, stat.Ino}, nil
}

// verify compares the state of this process with what was asked for.
func (c Confinement) verify() error {
	for _, check := range []func() error{c.apart, rightless, c.filtered, led} {
		if err := check(); err != nil {
			return fmt.Errorf("cannot trust this bubblewrap, which does not do what it is told: %w; install another one", err)
		}
	}
	return nil
}

// apart refuses a namespace of the server's.
func (c Confinement) apart() error {
	for _, outside := range c.Outside {
		own, err := NamespaceOf(outside.Kind)
		if err != nil {
			return err
		}
		if own == outside {
			return fmt.Errorf("the cage has the server's own %s namespace (--unshare-%[1]s)", outside.Kind)
		}
		if outside.Kind == "net" {
			if err := lonely(); err != nil {
				return err
			}
		}
	}
	return nil
}

// lonely refuses a network with a device that leads anywhere. Those that the kernel
// puts into every new network, for tunnels, are down.
func lonely() error {
	devices, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("the network devices cannot be listed: %w", err)
	}
	for _, d := range devices {
		if d.Flags&net.FlagLoopback == 0 && d.Flags&net.FlagUp != 0 {
			return fmt.Errorf("the cage has the network device %s (--unshare-net)", d.Name)
		}
	}
	return nil
}

// rightless refuses capabilities, in whatever set, and ways to new ones.
func rightless() error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	return restrained(string(text))
}

// restrained is rightless for the text of a status file.
func restrained(status string) error {
	fields := make(map[string]string)
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if bits := fields[set]; bits == "" || strings.Trim(bits, "0") != "" {
			return fmt.Errorf("capabilities are left: %s is %q (--cap-drop ALL)", set, bits)
		}
	}
	if fields["NoNewPrivs"] != "1" {
		return errors.New("new privileges can be gained (no_new_privs is not set)")
	}
	if fields["Seccomp"] != "2" {
		return errors.New("there is no system call filter (--seccomp)")
	}
	return nil
}

// filtered makes calls that the cage's own filter answers with EPERM. Another one may
// be there, a container's for example, and not this. Without it they fail, too, and
// otherwise: none can do anything.
func (c Confinement) filtered() error {
	_, unixErr := unix.Socket(unix.AF_UNIX, -1, 0)
	for _, call := range []struct {
		name    string
		allowed bool
		err     error
	}{
		{"setting set-user-ID bits", false, unix.Fchmod(-1, unix.S_ISUID)},
		{"entering namespaces", false, unix.Setns(-1, unix.CLONE_NEWUSER)},
		{"Unix sockets", c.Unix, unixErr},
		{"tracing", c.Debug, unix.PtraceDetach(-1)},
	} {
		if !call.allowed && call.err != unix.EPERM {
			return fmt.Errorf("the system call filter does not refuse %s, the answer is %v (--seccomp)", call.name, call.err)
		}
	}
	return nil
}

// deathSignal is what this process gets when bubblewrap ends. The kernel keeps that for
// each thread, and only while packages are initialized this is surely the first one.
var deathSignal = func() (signal int32) {
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0); err != nil {
		return 0
	}
	return signal
}()

// led refuses a session of somebody else's, with whose terminal the program would be
// connected, and an end of bubblewrap that is not the cage's.
func led() error {
	session, err := unix.Getsid(0)
	switch {
	case err != nil:
		return fmt.Errorf("the session cannot be told: %w", err)
	case session != os.Getpid():
		return errors.New("the cage has no session of its own (--new-session)")
	case deathSignal != int32(unix.SIGKILL):
		return errors.New("the cage would outlive bubblewrap (--die-with-parent)")
	}
	return nil
}
