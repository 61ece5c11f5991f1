package store_test

import (
	"fmt"
	"strings"
	"testing"

	"pi-mcp/store"
)

// benchDB makes a database of so many stopped agents, each with a text of 4 KiB.
func benchDB(b *testing.B, n int) (path string, db *store.DB) {
	b.Helper()
	path = fresh(b)
	db = open(b, path)
	text := strings.Repeat("text ", 4096/5)
	for i := range n {
		a := agent(b, "g", []string{"exited", "ripped"}[i%2])
		a.Name, a.Write = fmt.Sprint("agent ", i), []string{"/home/user/project"}
		a.LastText, a.RippedAt = &text, &a.Created
		insert(b, db, a)
	}
	return path, db
}

func BenchmarkListNewest200Of10000(b *testing.B) {
	_, db := benchDB(b, 10_000)
	for b.Loop() {
		rows, total, err := db.List(b.Context(), store.Query{Group: "g", Limit: 200})
		if len(rows) != 200 || total != 10_000 || err != nil {
			b.Fatal(len(rows), total, err)
		}
	}
}

func BenchmarkListStatePage(b *testing.B) {
	_, db := benchDB(b, 10_000)
	q := store.Query{Group: "g", States: []string{"exited"}, Limit: 25}
	for b.Loop() {
		rows, total, err := db.List(b.Context(), q)
		if len(rows) != 25 || total != 5_000 || err != nil {
			b.Fatal(len(rows), total, err)
		}
	}
}

func BenchmarkOpen10000(b *testing.B) {
	path, db := benchDB(b, 10_000)
	db.Close()
	for b.Loop() {
		db, err := store.Open(b.Context(), path)
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Adopt(b.Context(), nil); err != nil { // nothing to take
			b.Fatal(err)
		}
		db.Close()
	}
}

func BenchmarkSave(b *testing.B) {
	for _, size := range []int{0, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("text=%d", size), func(b *testing.B) {
			db := open(b, fresh(b))
			text := strings.Repeat("x", size)
			a := agent(b, "g", "idle")
			a.LastText = &text
			insert(b, db, a)
			for b.Loop() {
				a.SettleCount++
				if err := db.Save(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAgent(b *testing.B) {
	db := open(b, fresh(b))
	a := insert(b, db, agent(b, "g", "idle"))
	for b.Loop() {
		if _, err := db.Agent(b.Context(), "g", a.ID); err != nil {
			b.Fatal(err)
		}
	}
}
