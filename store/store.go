// Package store keeps agents and groups in one SQLite file that several servers
// may have open at once.
//
// It holds rows and no opinion. What a state means, who may do what and what is
// to be done about an agent whose server has died is decided by the caller; the
// store only knows living rows from others, and which server answers for them.
//
// Every exported method is one transaction. A method whose context ends while it
// writes has written all or nothing, and does not say which.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// ErrNotFound says that no row matches. A row of another group does not match.
var ErrNotFound = errors.New("not found")

// ErrNewer says that the file was migrated by a newer program. It is as it was.
var ErrNewer = errors.New("the database was written by a newer version of this program")

// A DB is one opening of the database. Its methods may be called concurrently.
type DB struct {
	id, owner string
	write     *pool // one connection: faster than several, and fair
	read      *pool
	owners    *os.Root // holds one lock file for each opening
	lock      *os.File // ours, locked until Close
	close     func() error
}

// Open opens the database at path, makes it when it is missing, migrates it, and
// takes the lock that shows others that this server is alive.
//
// Missing directories are made for their owner only (0700). The file and its
// companions are readable by their owner only (0600), even if they were not
// before. Beside the file lies the directory owners.
//
// The error is ErrNewer if a newer program has migrated the file.
func Open(ctx context.Context, path string) (*DB, error) {
	d := new(DB)
	if err := d.open(ctx, path); err != nil {
		d.shut()
		return nil, fmt.Errorf("cannot open the database %s: %w", path, err)
	}
	d.close = sync.OnceValue(d.shut)
	return d, nil
}

func (d *DB) open(ctx context.Context, path string) error {
	path, err := place(path)
	if err != nil {
		return err
	}
	if d.write, err = openPool(path, writing, 1); err != nil {
		return err
	}
	if err := d.write.connect(ctx); err != nil {
		return err
	}
	if err := migrate(ctx, d.write.DB); err != nil {
		return err
	}
	// After the migration, since a read-only connection cannot make the files of the
	// write-ahead log.
	if d.read, err = openPool(path, reading, 4); err != nil {
		return err
	}
	const q = `select value from meta where key = 'id'`
	if err := d.read.QueryRowContext(ctx, q).Scan(&d.id); err != nil {
		return fmt.Errorf("cannot read the database's id: %w", err)
	}
	return d.register(filepath.Join(filepath.Dir(path), "owners"))
}

// ID is the id of the database: a UUID made with it.
func (d *DB) ID() string { return d.id }

// Owner is the id of this opening: a UUID, another one each time.
func (d *DB) Owner() string { return d.owner }

// Close ends the opening: the rows that it still owns are now anyone's to adopt.
// A second Close does nothing and returns what the first one did.
func (d *DB) Close() error { return d.close() }

// shut closes whatever open has come to. The lock goes last, and its file before
// the lock, so that nobody can lock a file that is about to go.
func (d *DB) shut() error {
	var errs []error
	if d.read != nil {
		errs = append(errs, d.read.Close())
	}
	if d.write != nil {
		d.write.tidy()
		errs = append(errs, d.write.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.owners.Remove(d.owner), d.lock.Close())
	}
	if d.owners != nil {
		errs = append(errs, d.owners.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot close the database: %w", err)
	}
	return nil
}
