package artifacts_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pi-mcp/artifacts"
)

// A log of short records, read near its end by line number.
func BenchmarkReadLogByLine(b *testing.B) {
	d, p := newAgent(b)
	write(b, p.StdoutLog, strings.Repeat(strings.Repeat("x", 200)+"\n", 200_000))
	b.SetBytes(201 * 200_000)
	for b.Loop() {
		_, err := d.ReadLog(b.Context(), artifacts.Stdout, artifacts.Range{LinesFrom: num(199_990)})
		check(b, err)
	}
}

func BenchmarkReadTenMiB(b *testing.B) {
	d, p := newAgent(b)
	write(b, p.StdoutLog, strings.Repeat(strings.Repeat("x", 80)+"\n", 1<<17))
	r := artifacts.Range{MaxBytes: num(artifacts.MaxBytes), Cap: 1 << 30}
	b.SetBytes(81 << 17)
	for b.Loop() {
		_, err := d.ReadLog(b.Context(), artifacts.Stdout, r)
		check(b, err)
	}
}

func BenchmarkLogWrite(b *testing.B) {
	d, _ := newAgent(b)
	l, err := d.Log(artifacts.Stdout, 1<<30)
	check(b, err)
	defer l.Close()
	record := []byte(strings.Repeat("x", 64<<10))
	b.SetBytes(int64(len(record)))
	for b.Loop() {
		_, err := l.Write(record)
		check(b, err)
	}
}

func BenchmarkListFiveThousand(b *testing.B) {
	d, p := newAgent(b)
	for i := range 50 {
		for j := range 100 {
			write(b, filepath.Join(p.Tmp, strconv.Itoa(i), strconv.Itoa(j)), "")
		}
	}
	for b.Loop() {
		_, err := d.ListTmp(b.Context(), "", true, artifacts.MaxEntries)
		check(b, err)
	}
}
