package store_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pi-mcp/store"
)

// script runs SQL on a database without the store.
func script(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

func value(t *testing.T, path, query string) (v string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(query).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func steps(t *testing.T) (texts []string) {
	t.Helper()
	files, err := filepath.Glob("schema/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func TestMigrateFromTheFirstStep(t *testing.T) {
	path := fresh(t)
	script(t, path, steps(t)[0]+`; pragma user_version = 1`)
	id := value(t, path, `select value from meta`)
	db := open(t, path)
	if db.ID() != id {
		t.Errorf("id %s became %s", id, db.ID())
	}
	if _, err := db.MakeGroup(t.Context(), make([]byte, 32), false); err != nil {
		t.Errorf("the second step is missing: %v", err)
	}
	if v := value(t, path, `pragma user_version`); v != strconv.Itoa(len(steps(t))) {
		t.Errorf("user_version %s", v)
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	path := fresh(t)
	open(t, path).Close()
	script(t, path, `pragma user_version = 1000; create table later (x)`)
	db, err := store.Open(t.Context(), path)
	if !errors.Is(err, store.ErrNewer) {
		t.Fatalf("got %v, %v", db, err)
	}
	if !strings.Contains(err.Error(), "1000") || !strings.Contains(err.Error(), path) {
		t.Errorf("says neither version nor file: %v", err)
	}
	if v := value(t, path, `pragma user_version`); v != "1000" {
		t.Errorf("user_version %s", v)
	}
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(path), "owners")); err != nil || len(left) > 0 {
		t.Errorf("owners left: %v, %v", left, err)
	}
}

// Nothing of a step that fails stays, and the steps before it do.
func TestFailedStep(t *testing.T) {
	path := fresh(t)
	script(t, path, steps(t)[0]+`; pragma user_version = 1; create table groups (x)`)
	_, err := store.Open(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), "schema/02_groups.sql") {
		t.Fatalf("got %v", err)
	}
	if v := value(t, path, `pragma user_version`); v != "1" {
		t.Errorf("user_version %s", v)
	}
	script(t, path, `drop table groups`)
	open(t, path)

	path = fresh(t)
	script(t, path, `create table agents (x)`) // the second table of the first step
	_, err = store.Open(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), "schema/01_agents.sql") {
		t.Fatalf("got %v", err)
	}
	if n := value(t, path, `select count(*) from sqlite_schema`); n != "1" {
		t.Errorf("%s tables, indexes and so on are left", n)
	}
}
