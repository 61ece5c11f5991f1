package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// devices are the probes of the machine's hardware and of the kernel's settings.
func devices() []probe {
	return []probe{
		{35, "open a disk or the memory", func(World) (string, error) {
			return device("vda", "sda", "nvme0n1", "mem", "kmem", "port")
		}},
		{36, "read the kernel's log", func(World) (string, error) {
			return anyOf(func() (string, error) { return device("kmsg") }, func() (string, error) {
				_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 64))
				return "read", err
			})
		}},
		{37, "open fuse, kvm, tun or vsock", func(World) (string, error) { return device("fuse", "kvm", "net/tun", "vsock") }},
		{38, "list /sys", func(World) (string, error) {
			entries, err := os.ReadDir("/sys")
			if err == nil && len(entries) == 0 {
				err = errors.New("empty")
			}
			return "listed", err
		}},
		{39, "change core_pattern or another setting of the kernel", func(World) (string, error) {
			return anyOf(writing("/proc/sys/kernel/core_pattern"), writing("/proc/sys/kernel/modprobe"),
				writing("/proc/sys/kernel/randomize_va_space"), writing("/proc/sys/vm/overcommit_memory"),
				writing("/proc/sys/fs/file-max"))
		}},
		{40, "use sysrq-trigger", func(World) (string, error) { return writing("/proc/sysrq-trigger")() }},
		{41, "open /proc/kcore", func(World) (string, error) {
			f, err := os.Open("/proc/kcore")
			if err != nil {
				return "", err
			}
			defer f.Close()
			n, err := f.Read(make([]byte, 4))
			if n == 0 && err == nil {
				err = errors.New("empty")
			}
			return "read", err
		}},
		{42, "raise max_user_namespaces", func(World) (string, error) { return writing("/proc/sys/user/max_user_namespaces")() }},
	}
}

// device opens the first of /dev's that can be opened.
func device(names ...string) (string, error) {
	var attempts []func() (string, error)
	for _, name := range names {
		attempts = append(attempts, func() (string, error) {
			fd, err := unix.Open("/dev/"+name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			return "opened " + name, unix.Close(fd)
		})
	}
	return anyOf(attempts...)
}
