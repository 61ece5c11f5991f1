package pi

import "time"

// SetClock replaces the clock by which a kept answer of Auth gets old.
func (in *Install) SetClock(now func() time.Time) { in.auth.now = now }
