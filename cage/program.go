package cage

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A program is the first process of cages, held open: an upgrade that replaces the
// file must not mix two versions.
type program struct {
	path string // where it was found, for a bubblewrap that cannot mount a descriptor
	copy string // where it is kept once the file has been replaced

	mu   sync.Mutex // protects file
	file *os.File
}

// openProgram opens the program at path, which may be /proc/self/exe.
func openProgram(path, stateDir string) (*program, error) {
	if path == "" {
		return nil, errors.New("cannot make cages without a program for their first process: Init is required")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the first process of cages: %w", err)
	}
	if err := static(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot use %s as the first process of cages: %w; build it with CGO_ENABLED=0", path, err)
	}
	p := &program{path: path, copy: filepath.Join(stateDir, "init"), file: f}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		p.path = real
	}
	return p, nil
}

// static refuses what needs a dynamic loader: a cage may have another one, or none.
func static(f *os.File) error {
	file, err := elf.NewFile(f)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("it is linked dynamically")
	}
	return nil
}

// open returns a descriptor that bubblewrap can mount, for the caller to close. It
// cannot mount a file that has no name left, so what has been replaced gets a new
// one. All servers of a state directory share that name: one that loses it to
// another makes it again.
func (p *program) open() (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stat unix.Stat_t
	if err := unix.Fstat(int(p.file.Fd()), &stat); err != nil {
		return nil, fmt.Errorf("cannot look at the first process of cages: %w", err)
	}
	if stat.Nlink == 0 {
		if err := p.keep(); err != nil {
			return nil, fmt.Errorf("cannot keep the first process of cages, whose file has been replaced: %w", err)
		}
	}
	return duplicate(p.file)
}

// keep goes over to a copy of the file.
func (p *program) keep() error {
	to, err := os.CreateTemp(filepath.Dir(p.copy), ".init")
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(p.file, 0, 1<<62))
	err = errors.Join(err, to.Chmod(0o555), to.Close()) // nobody can execute what is open for writing
	if err == nil {
		err = os.Rename(to.Name(), p.copy)
	}
	if err != nil {
		os.Remove(to.Name())
		return err
	}
	file, err := os.Open(p.copy)
	if err != nil {
		return err
	}
	p.file.Close()
	p.file, p.path = file, p.copy
	return nil
}

func (p *program) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file.Close()
}
