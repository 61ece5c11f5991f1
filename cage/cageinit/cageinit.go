// Package cageinit is the first process of a cage and what the server says to it.
//
// bubblewrap makes the cage and then executes the server's own program again, as
// pid 1 and with nothing but Command as its argument. Before anything of an agent's
// runs, it closes what it was not meant to have, opens the cage's listeners and
// passes them out, and looks from inside at what it has and at every mount: what
// bubblewrap has left out and a path that was swapped while it worked are found here. Then it starts the program, collects
// orphans, and reports how the program ended.
//
// Both ends speak over a control socket that keeps messages apart. Its end is the
// cage's end: when the server is gone, however it went, so is the cage.
package cageinit

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// What bubblewrap is told to execute, and the number of the control socket there.
const (
	Path      = "/.pi-mcp-init"
	Command   = "cage-init"
	ControlFD = 5
)

// MaxListeners is how many descriptors fit one message with room to spare
// (SCM_MAX_FD in the kernel is 253).
const MaxListeners = 16

// A Raw is a string of any bytes. JSON has only Unicode, paths and environments
// have not.
type Raw string

func (r Raw) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(r)), nil
}

func (r *Raw) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	*r = Raw(b)
	return err
}

// An Order is what the server wants of a cage. It travels as a file in memory: an
// environment may be larger than a message.
type Order struct {
	Argv        []Raw // Argv[0] is a path
	Env         []Raw // the whole environment
	Dir         Raw
	Listen      []string // TCP addresses
	Confinement Confinement
	Checks      []Check
	Limits      Limits
	Wall        Wall
}

// Limits are those of the program and of each process it starts. Zero means that
// bubblewrap's own are kept. Core dumps are always off.
type Limits struct {
	Processes int64 // of the cage's user in the cage, threads included; root is not counted
	FileSize  int64 // of one file, in bytes
	Data      int64 // of memory of one process's own, in bytes
	CPU       int64 // seconds of one process
}

// A Step is how far a cage is.
type Step string

const (
	Ready   Step = "ready"   // verified; the listeners are attached in the order of Order.Listen
	Go      Step = "go"      // from the server: start the program
	Started Step = "started" // the program has been executed
	Failed  Step = "failed"  // for Reason; the cage is over
	Ended   Step = "ended"   // the program is over, and the cage with it
)

// A Message is one packet on the control socket. The Order is attached to Go's
// forerunner, the empty Step.
type Message struct {
	Step   Step
	Reason string `json:",omitempty"`
	Code   int    `json:",omitempty"` // the exit code, or 128 + n for signal n
	Signal string `json:",omitempty"` // the name of the signal that ended the program
}

// maxMessage bounds one packet; a Reason is far shorter.
const maxMessage = 16 << 10

// A Control is one end of the control socket.
type Control struct{ *net.UnixConn }

// NewControl takes over fd. It is non-blocking and close-on-exec from here on.
func NewControl(fd int) (Control, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "control")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return Control{}, fmt.Errorf("cannot use the control socket: %w", err)
	}
	return Control{conn.(*net.UnixConn)}, nil
}

// Pair returns the server's end and the number of the cage's, which is the caller's
// to close.
func Pair() (ours Control, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Control{}, nil, fmt.Errorf("cannot make the control socket: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "control")
	if ours, err = NewControl(fds[0]); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// Send sends m with descriptors, which stay the caller's.
func (c Control) Send(m Message, files ...*os.File) error {
	packet, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(packet, rights, nil)
	return err
}

// Receive returns the next message and the files that came with it, which are the
// caller's. io.EOF: the other end is gone.
func (c Control) Receive() (m Message, files []*os.File, err error) {
	packet, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*MaxListeners))
	n, nrights, flags, _, err := c.ReadMsgUnix(packet, rights)
	if err != nil {
		return m, nil, err
	}
	if files, err = attached(rights[:nrights]); err != nil {
		return m, files, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return m, files, errors.New("a control message is too long")
	}
	return m, files, json.Unmarshal(packet[:n], &m)
}

// attached returns the descriptors of a control message.
func attached(rights []byte) (files []*os.File, err error) {
	if len(rights) == 0 {
		return nil, nil
	}
	parts, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		fds, err := unix.ParseUnixRights(&part)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "attached"))
		}
	}
	return files, nil
}
