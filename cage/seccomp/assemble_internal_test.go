package seccomp

import "testing"

// Filter makes no program that assemble refuses, so this is asked of assemble itself.
func TestAssemble(t *testing.T) {
	values := func(n int) []uint32 { return make([]uint32, n) }
	end := ret(0)
	for name, c := range map[string]struct {
		steps []step
		ok    bool
	}{
		"the longest jump":     {append(when(values(256), []step{end}), end), true},
		"one longer":           {append(when(values(257), []step{end}), end), false},
		"a body as long":       {append(when(values(1), make([]step, 255)), end), true},
		"a body too long":      {append(when(values(1), make([]step, 256)), end), false},
		"a jump past the end":  {[]step{jump(jumpEqual, 0, 1, 0), end}, false},
		"no return at the end": {[]step{end, load(0)}, false},
		"no values":            {append(when(nil, []step{load(0)}), end), true},
		"4,096 instructions":   {append(make([]step, 4095), end), true},
		"one more":             {append(make([]step, 4096), end), false},
	} {
		program, err := assemble(c.steps)
		if (err == nil) != c.ok || c.ok && len(program) != len(c.steps) {
			t.Errorf("%s: %d instructions, %v", name, len(program), err)
		}
	}
}
