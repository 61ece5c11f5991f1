package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes are the probes of other processes.
func processes() []probe {
	return []probe{
		{7, "read the host through /proc/1/root", func(w World) (string, error) { return read(w.first("root") + w.Home + "/.ssh/id_rsa") }},
		{8, "find the server's secret in an environment", func(w World) (string, error) { return search(w, "environ", w.Decoy) }},
		{9, "read the environment or host paths of pid 1", func(w World) (string, error) {
			return anyOf(reading(w.first("environ")), func() (string, error) { return holds(w.first("cmdline"), w.Dir) })
		}},
		{10, "signal a process of the host", func(w World) (string, error) {
			if err := unix.Kill(w.Host, 0); err != nil {
				return "", err
			}
			return holds(fmt.Sprintf("/proc/%d/cmdline", w.Host), w.Dir) // the number may be one of the cage's own
		}},
		{11, "see processes of the host", func(w World) (string, error) { return search(w, "cmdline", w.Dir) }},
		{43, "ptrace another process", attach},
		{44, "open /proc/1/mem", func(w World) (string, error) { return opened(w.first("mem")) }},
		{45, "read another process's memory", peek},
		{46, "take another process's descriptor", grab},
		{72, "write the program of pid 1", func(w World) (string, error) {
			found, err := writing(w.first("exe"))()
			if errors.Is(err, unix.ETXTBSY) {
				return "allowed, only busy", nil
			}
			return found, err
		}},
	}
}

func (w World) first(name string) string { return fmt.Sprintf("/proc/%d/%s", w.First, name) }

func opened(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	return "opened " + path, f.Close()
}

func holds(path, word string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), word) {
		return "", errors.New(path + " does not tell")
	}
	return "found in " + path, nil
}

// search looks for word in a file of every process but this one and its parent.
func search(_ World, name, word string) (string, error) {
	paths, _ := filepath.Glob("/proc/[0-9]*/" + name)
	own := map[string]bool{strconv.Itoa(os.Getpid()): true, strconv.Itoa(os.Getppid()): true}
	for _, path := range paths {
		if own[filepath.Base(filepath.Dir(path))] {
			continue
		}
		if found, err := holds(path, word); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("in none of %d", len(paths))
}

// neighbour starts a process of the probe's own, which end ends.
func neighbour() (pid int, end func(), err error) {
	cmd := exec.Command("/proc/self/exe", "wait")
	up, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, nil, err
	}
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	if _, err := up.Read(make([]byte, 1)); err != nil { // before that its memory may not be there
		end()
		return 0, nil, err
	}
	return cmd.Process.Pid, end, nil
}

func attach(World) (string, error) {
	pid, end, err := neighbour()
	if err != nil {
		return "", err
	}
	defer end()
	runtime.LockOSThread() // whoever attaches must detach
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		return "", err
	}
	_, err = unix.Wait4(pid, nil, unix.WALL, nil)
	return "attached", errors.Join(err, unix.PtraceDetach(pid))
}

// landmark is at the same address in every process of this program.
var landmark = "landmark"

func peek(World) (string, error) {
	pid, end, err := neighbour()
	if err != nil {
		return "", err
	}
	defer end()
	const size = int(unsafe.Sizeof(landmark))
	buffer := make([]byte, size)
	local := []unix.Iovec{{Base: &buffer[0], Len: uint64(size)}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&landmark)), Len: size}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	return fmt.Sprintf("%d bytes", n), err
}

func grab(World) (string, error) {
	pid, end, err := neighbour()
	if err != nil {
		return "", err
	}
	defer end()
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, 0, 0)
	if err != nil {
		return "", err
	}
	return "got one", unix.Close(fd)
}

// helper is what this program does for a probe of another process of it.
func helper(what string) int {
	switch what {
	case "wait":
		os.Stdout.Write([]byte{'.'})
		time.Sleep(patience)
	case "type":
		for _, request := range []uint{unix.TIOCSTI, 1<<32 | unix.TIOCSTI} {
			letter := byte('x')
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, uintptr(request), uintptr(unsafe.Pointer(&letter))); errno == 0 {
				return 0
			}
		}
		return 3
	}
	return 0
}
