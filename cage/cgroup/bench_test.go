package cgroup_test

import (
	"os/exec"
	"testing"
)

// What a group of its own adds to the start and the end of a program.
func BenchmarkStart(b *testing.B) {
	c := controller(b)
	run := func() error { return exec.Command("/bin/true").Run() }
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			run()
		}
	})
	if c == nil {
		return
	}
	limits, _ := c.Trim(all)
	b.Run("grouped", func(b *testing.B) {
		for b.Loop() {
			g, err := c.New(owner(b), "agent", limits)
			if err != nil {
				b.Fatal(err)
			}
			g.Enter(run)
			remove(b, g)
		}
	})
}
