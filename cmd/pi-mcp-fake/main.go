// Command pi-mcp-fake fills a database and an agents directory with made-up
// agents, all stopped, to try out clients and take screenshots. Nothing in them
// ever ran.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"pi-mcp/artifacts"
	"pi-mcp/store"
)

func main() {
	if err := command().Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "pi-mcp-fake:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	return &cli.Command{
		Name:  "pi-mcp-fake",
		Usage: "fill a database with made-up agents",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "db", Required: true, Usage: "database file, made if it is missing"},
			&cli.StringFlag{Name: "agents-dir", Usage: "directory of the agents (default: agents beside the database)"},
			&cli.IntFlag{Name: "count", Value: 12, Usage: "how many agents"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "the same seed makes the same agents, but for ids"},
		},
		Action:         fill,
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}

// maxCount bounds a mistake: each agent is a directory.
const maxCount = 100_000

func fill(ctx context.Context, cmd *cli.Command) (err error) {
	n := cmd.Int("count")
	if n < 0 || n > maxCount {
		return fmt.Errorf("--count %d: write 0 to %d", n, maxCount)
	}
	path, err := filepath.Abs(cmd.String("db"))
	if err != nil {
		return err
	}
	dir := cmd.String("agents-dir")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(path), "agents")
	}
	db, err := store.Open(ctx, path)
	if err != nil {
		return fmt.Errorf("cannot open the database %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := artifacts.Open(dir, db.ID())
	if err != nil {
		return fmt.Errorf("cannot use the agents directory %s: %w", dir, err)
	}
	tale := teller{rand.New(rand.NewPCG(cmd.Uint64("seed"), 0))}
	for i := range n {
		if err := make1(ctx, db, files, tale, i, n); err != nil {
			return err
		}
	}
	fmt.Printf("made %d agents in %s\n", n, path)
	return nil
}

// make1 makes the agent with number i of n, oldest first.
func make1(ctx context.Context, db *store.DB, files *artifacts.Store, tale teller, i, n int) error {
	row, turns, err := tale.agent(i, n)
	if err != nil {
		return err
	}
	if err := files.Create(row.ID, tale.session(row, turns)); err != nil {
		return err
	}
	dir, err := files.Agent(row.ID)
	if err != nil {
		return err
	}
	defer dir.Close()
	log, err := dir.Log(artifacts.Stdout, 0)
	if err != nil {
		return err
	}
	if _, err := log.Write(tale.log(turns)); err != nil {
		return errors.Join(err, log.Close())
	}
	if err := log.Close(); err != nil {
		return err
	}
	sizes := dir.Sizes()
	row.StdoutBytes, row.SessionBytes = sizes.Stdout, sizes.Session
	return db.Insert(ctx, row, 0)
}
