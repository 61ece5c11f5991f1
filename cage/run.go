package cage

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// Limits bound what Run keeps of each stream, in bytes. Zero stands for 64 KiB.
type Limits struct {
	Stdout, Stderr int
}

const defaultLimit = 64 << 10

// A Result is what a program in a throw-away cage left.
type Result struct {
	Stdout, Stderr []byte

	// The program wrote more than its limit and was killed for it.
	StdoutTruncated, StderrTruncated bool

	Exit Exit
}

// Run runs argv in a cage of its own and returns when nothing of it is left. Its
// input is empty. It is killed when ctx ends or when it writes more than limits.
// The error says that the cage could not be made, and why, or is ctx's; whatever
// the program itself does is a Result.
func (b *Bwrap) Run(ctx context.Context, spec Spec, argv []string, limits Limits) (Result, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return Result{}, fmt.Errorf("cannot give the cage an empty input: %w", err)
	}
	s, err := openStreams()
	if err != nil {
		null.Close()
		return Result{}, err
	}
	s.ours[0].Close()
	s.theirs[0].Close()
	s.theirs[0] = null
	p, err := b.launch(ctx, spec, argv, s)
	if err != nil {
		return Result{}, err
	}
	defer closeAll(s.ours[1:])
	defer context.AfterFunc(ctx, p.Kill)()
	r := p.collect(s, limits)
	if ctx.Err() != nil {
		return r, fmt.Errorf("the cage was stopped: %w", context.Cause(ctx))
	}
	return r, nil
}

// collect reads both streams to their ends and waits for the program.
func (p *Proc) collect(s streams, limits Limits) (r Result) {
	var readers sync.WaitGroup
	readers.Go(func() { r.Stdout, r.StdoutTruncated = p.keep(s.ours[1], limits.Stdout) })
	readers.Go(func() { r.Stderr, r.StderrTruncated = p.keep(s.ours[2], limits.Stderr) })
	readers.Wait()
	r.Exit = p.Exit()
	return r
}

// keep reads from to its end, returns the first limit bytes, and kills the program
// as soon as there are more.
func (p *Proc) keep(from io.Reader, limit int) (kept []byte, truncated bool) {
	if limit <= 0 {
		limit = defaultLimit
	}
	kept, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	if len(kept) <= limit || err != nil {
		return kept, false
	}
	p.Kill()
	io.Copy(io.Discard, from) // what is under way until it is dead
	return kept[:limit], true
}
