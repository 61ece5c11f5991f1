package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"pi-mcp/store"
)

// The test binary is another server when this variable says so. Its arguments are
// a command and a path.
const childVariable = "PI_MCP_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	// A live timer: without one the Go runtime can freeze for a minute when a
	// goroutine reads stdin.
	defer time.NewTicker(50 * time.Millisecond).Stop()
	if err := serve(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve opens the database, says who it is, and does what it was told once a line
// comes. At the end of its input it closes the database.
func serve(ctx context.Context, path string, command []string) error {
	in := bufio.NewReader(os.Stdin)
	if command[0] == "open" { // opening is what is to happen at the line
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
	}
	db, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	fmt.Println(db.Owner(), db.ID())
	if err := obey(ctx, db, in, command); err != nil && err != io.EOF {
		return err
	}
	return db.Close()
}

func obey(ctx context.Context, db *store.DB, in *bufio.Reader, command []string) error {
	switch command[0] {
	case "hold": // a living row for each id, until the end of input
		for _, id := range command[1:] {
			err := db.Insert(ctx, store.Agent{ID: id, Group: "g", State: "active", Living: true}, 0)
			if err != nil {
				return err
			}
		}
		fmt.Println("ready")
		_, err := in.ReadString('\n')
		return err
	case "adopt":
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		return db.Adopt(ctx, func(ctx context.Context, rows []store.Agent) error {
			for _, a := range rows {
				fmt.Println(a.ID)
			}
			return endAll(ctx, db, rows)
		})
	case "count": // so often, in this row
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		times, _ := strconv.Atoi(command[2])
		return countUp(ctx, db, command[1], times)
	}
	return nil
}

// endAll saves rows as those of a server that died.
func endAll(ctx context.Context, db *store.DB, rows []store.Agent) error {
	for _, a := range rows {
		a.Living, a.State = false, "exited"
		if err := db.Save(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// countUp reads a row and writes it back with one more settle, so many times.
func countUp(ctx context.Context, db *store.DB, id string, times int) error {
	for range times {
		a, err := db.Any(ctx, id)
		if err != nil {
			return err
		}
		a.SettleCount++
		if err := db.Save(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// A child is another server in a process of its own.
type child struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors strings.Builder
}

func start(t *testing.T, path string, command ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.Command(exe, append([]string{path}, command...)...)}
	c.Env = append(os.Environ(), childVariable+"=1")
	c.Stderr = &c.errors
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill) // of no effect once it has ended
	return c
}

// line is the child's next line.
func (c *child) line(t *testing.T) string {
	t.Helper()
	text, err := c.out.ReadString('\n')
	if err != nil {
		c.kill()
		t.Fatalf("child: %v\n%s", err, c.errors.String())
	}
	return strings.TrimSpace(text)
}

func (c *child) owner(t *testing.T) string {
	t.Helper()
	owner, _, _ := strings.Cut(c.line(t), " ")
	return owner
}

func (c *child) say(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		t.Error(err)
	}
}

// end closes the child's input, and returns what it still says. It fails unless
// the child ends well.
func (c *child) end(t *testing.T) string {
	t.Helper()
	c.in.Close()
	rest, err := io.ReadAll(c.out)
	if err := errors.Join(err, c.Wait()); err != nil {
		t.Errorf("child: %v\n%s", err, c.errors.String())
	}
	return string(rest)
}

func (c *child) kill() {
	c.Process.Kill()
	c.Wait()
}
