package cage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
)

// An attempt is a bubblewrap that has been started and told nothing yet.
type attempt struct {
	proc   *Proc
	args   *os.File
	packed string // what is to be written to args
	checks []cageinit.Check
	order  cageinit.Order
}

// order is what the first process of the cage is told.
func (s Spec) order(argv []string, checks []cageinit.Check, own []cageinit.Namespace) cageinit.Order {
	return cageinit.Order{
		Argv: raw(argv), Env: raw(s.Env), Dir: cageinit.Raw(orRoot(s.Dir)), Listen: s.Listen, Checks: checks,
		Limits:      cageinit.Limits(s.Limits),
		Confinement: cageinit.Confinement{Outside: s.outside(own), Unix: s.Unix, Debug: s.Debug},
	}
}

// unshared are the kinds of namespaces that isolate asks for, net only sometimes.
// The cage's cgroup namespace is none of them: not every kernel has one.
var unshared = [...]string{"user", "ipc", "pid", "uts", "net"}

// ownNamespaces are this process's of these kinds.
func ownNamespaces() (own []cageinit.Namespace, err error) {
	for _, kind := range unshared {
		n, err := cageinit.NamespaceOf(kind)
		if err != nil {
			return nil, err
		}
		own = append(own, n)
	}
	return own, nil
}

// outside are those that the cage must not share.
func (s Spec) outside(own []cageinit.Namespace) []cageinit.Namespace {
	return slices.DeleteFunc(slices.Clone(own), func(n cageinit.Namespace) bool { return s.Network && n.Kind == "net" })
}

func orRoot(dir string) string {
	if dir == "" {
		return "/"
	}
	return dir
}

func raw(list []string) []cageinit.Raw {
	r := make([]cageinit.Raw, len(list))
	for i, s := range list {
		r[i] = cageinit.Raw(s)
	}
	return r
}

// begin makes the cage and starts the program in it. After an error nothing of it
// is left; without one, watch has taken over.
//
// Until bubblewrap has read its arguments it has made nothing that could outlive it.
// So they are written when the attempt has been noted where the next server looks.
func (b *Bwrap) begin(ctx context.Context, a *attempt) error {
	p := a.proc
	stop := context.AfterFunc(ctx, p.Kill)
	erase, err := b.births.note(p)
	if err == nil {
		err = a.tell()
	}
	a.args.Close()
	if err == nil {
		err = p.converse(a.order)
	}
	if !stop() && ctx.Err() != nil {
		err = fmt.Errorf("the start was stopped: %w", context.Cause(ctx))
	}
	defer erase()
	if err != nil {
		p.Kill()
		p.watch(b.forget)
		return b.closing(err)
	}
	go p.watch(b.forget)
	return nil
}

// tell writes bubblewrap's arguments. One that has not read them all has ended; why
// is on its stderr.
func (a *attempt) tell() error {
	if _, err := io.WriteString(a.args, a.packed); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("cannot tell bubblewrap its arguments: %w", err)
	}
	return nil
}

// errSilent says that the cage ended and left its reason, if any, on stderr.
var errSilent = errors.New("it ended without a word")

// converse takes the first process of the cage from its order to the program.
func (p *Proc) converse(o cageinit.Order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	file, err := memory(string(text))
	if err != nil {
		return err
	}
	defer file.Close()
	p.control.Send(cageinit.Message{}, file) // if nobody is there, hear says so
	files, err := p.hear(cageinit.Ready)
	if err != nil {
		return err
	}
	defer closeAll(files)
	for _, f := range files {
		l, err := net.FileListener(f)
		if err != nil {
			return fmt.Errorf("cannot use a listener of the cage: %w", err)
		}
		p.listeners = append(p.listeners, l)
	}
	p.control.Send(cageinit.Message{Step: cageinit.Go})
	_, err = p.hear(cageinit.Started)
	return err
}

// hear waits for the message that says step.
func (p *Proc) hear(step cageinit.Step) ([]*os.File, error) {
	m, files, err := p.control.Receive()
	if err != nil {
		return nil, errSilent
	}
	switch m.Step {
	case step:
		return files, nil
	case cageinit.Failed:
		err = errors.New("cage-init: " + m.Reason)
	default:
		err = fmt.Errorf("the cage says %q instead of %q", m.Step, step)
	}
	closeAll(files)
	return nil, err
}

// maxReason bounds what is kept of bubblewrap's own words.
const maxReason = 8 << 10

// unmade is the error of a cage that could not be made: what was said, and what to
// do about it.
func unmade(err error, stderr string) error {
	if errors.Is(err, errClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("cannot make the cage: %w", err)
	}
	said := strings.TrimSpace(stderr)
	switch {
	case !errors.Is(err, errSilent):
		said = strings.TrimSpace(said + "\n" + err.Error())
	case said == "":
		said = "bubblewrap gave no reason"
	}
	if remedy := Explain(said); remedy != "" {
		said += "\n" + remedy
	}
	return fmt.Errorf("cannot make the cage: %s", said)
}
