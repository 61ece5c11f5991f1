package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"time"

	"modernc.org/sqlite" // with the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Parameters of the two kinds of connection.
//
// A writer begins its transactions as writers: one that reads first and writes
// later fails at once when another server has written in between, however long
// the busy timeout. With synchronous(normal) a crash of the program loses
// nothing, and a power cut at most the last commits.
//
// Both open a file that is there already, and take a string in double quotes for
// a mistake.
const (
	writing = "mode=rw&_txlock=immediate&_defensive=1&_dqs=0&_error_rc=1" +
		"&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)" +
		"&_pragma=synchronous(normal)&_pragma=foreign_keys(1)"
	reading = "mode=ro&_dqs=0&_error_rc=1" +
		"&_pragma=busy_timeout(5000)&_pragma=query_only(1)"
)

// A pool is a database/sql pool that prepares each statement once.
type pool struct {
	*sql.DB
	mu       sync.Mutex
	prepared map[string]*sql.Stmt // by its text; closed with the pool
}

func openPool(path, params string, conns int) (*pool, error) {
	file := url.URL{Scheme: "file", Path: path, RawQuery: params}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return &pool{DB: db, prepared: make(map[string]*sql.Stmt)}, nil
}

// connect makes the first connection. When several switch a new file to the
// write-ahead log, SQLite tells all but one at once that the database is locked,
// whatever the busy timeout: they have to come again.
func (p *pool) connect(ctx context.Context) error {
	late := time.After(5 * time.Second) // as long as the busy timeout
	for {
		err := p.PingContext(ctx)
		if busy, ok := errors.AsType[*sqlite.Error](err); !ok || busy.Code()&0xff != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stmt returns a statement that belongs to the pool. Within a transaction it would
// wait for the connection that the transaction has: call it before.
func (p *pool) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.prepared[text]; s != nil {
		return s, nil
	}
	s, err := p.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	p.prepared[text] = s
	return s, nil
}

// tidy brings the planner's figures up to date and empties the write-ahead log,
// unless another server is in the way: a stop must not wait for it, and whoever
// closes last does it anyway. Hence no error.
func (p *pool) tidy() {
	p.Exec(`
		pragma busy_timeout = 100;
		pragma optimize;
		pragma wal_checkpoint(truncate);`)
}
