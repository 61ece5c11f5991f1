package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sweep removes the groups of an owner that is dead, and kills what is left in them.
// It sees those beside which this process would make its own: a server that ran
// below another group, such as another systemd scope, leaves its groups there.
func (c *Controller) Sweep(ctx context.Context, owner string) error {
	if !names.MatchString(owner) {
		return fmt.Errorf("cannot remove the groups of %q, which is no owner's name", owner)
	}
	var errs []error
	for _, p := range c.places {
		left, err := os.ReadDir(p.dir)
		errs = append(errs, err)
		for _, entry := range left {
			if entry.IsDir() && strings.HasPrefix(entry.Name(), prefix+owner+".") {
				d := dir{path: filepath.Join(p.dir, entry.Name()), parent: p.dir, unified: p.unified}
				g := &Group{kernel: c.kernel, dirs: []dir{d}}
				errs = append(errs, g.Remove(ctx))
			}
		}
	}
	return errors.Join(errs...)
}
