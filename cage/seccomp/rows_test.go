package seccomp_test

import "golang.org/x/sys/unix"

// A row is a call, its arguments and what the strict filter says to it. Where Unix or
// Debug makes that another answer, it is the one given.
type row struct {
	name  string
	args  [6]uint64
	want  verdict
	unix  verdict // 0: the same
	debug verdict
}

func args(a ...uint64) (all [6]uint64) {
	copy(all[:], a)
	return all
}

// high sets bits that the kernel does not look at.
const high = 0xdeadbeef << 32

// byNumber are the calls that no argument makes allowed.
func byNumber() (rows []row) {
	for _, name := range []string{
		"unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_by_handle_at", "name_to_handle_at",
		"add_key", "keyctl", "request_key", "bpf", "perf_event_open", "userfaultfd", "fanotify_init", "fanotify_mark",
		"move_pages", "migrate_pages", "modify_ldt", "iopl", "ioperm", "syslog", "acct", "vhangup", "quotactl",
		"quotactl_fd", "swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module",
		"delete_module", "clock_settime", "settimeofday", "sethostname", "setdomainname", "uselib", "_sysctl",
		"create_module", "query_module", "get_kernel_syms", "nfsservctl", "lookup_dcookie",
	} {
		rows = append(rows, row{name: name, want: eperm})
	}
	for _, name := range []string{"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"} {
		rows = append(rows, row{name: name, want: eperm, debug: allow})
	}
	for _, name := range []string{
		"clone3", "openat2", "fchmodat2", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree",
		"open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "listns",
	} {
		rows = append(rows, row{name: name, want: enosys})
	}
	return rows
}

// byArgument are the calls that depend on their arguments, modes aside.
func byArgument() []row {
	rows := []row{
		{name: "ioctl", args: args(0, unix.TIOCSTI), want: eperm},
		{name: "ioctl", args: args(0, unix.TIOCLINUX), want: eperm},
		{name: "ioctl", args: args(0, unix.TIOCSTI|1<<32), want: eperm}, // CVE-2019-10063
		{name: "ioctl", args: args(0, unix.TIOCLINUX|high), want: eperm},
		{name: "ioctl", args: args(unix.TIOCSTI, unix.TCGETS, unix.TIOCSTI), want: allow},
		{name: "ioctl", args: args(0, unix.TIOCGWINSZ|high), want: allow},

		{name: "clone", args: args(uint64(unix.SIGCHLD)), want: allow},
		// vfork and a thread, as glibc makes them.
		{name: "clone", args: args(unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)), want: allow},
		{name: "clone", args: args(0x3d0f00), want: allow},

		{name: "socket", args: args(unix.AF_INET, unix.SOCK_STREAM), want: allow},
		{name: "socket", args: args(unix.AF_INET6|high, unix.SOCK_DGRAM), want: allow},
		{name: "socket", args: args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), want: allow},
		{name: "socket", args: args(unix.AF_UNIX, unix.SOCK_STREAM), want: eperm, unix: allow},
		{name: "socket", args: args(unix.AF_UNIX | 1<<32), want: eperm, unix: allow},
		{name: "socket", args: args(0xffffffff), want: eperm},

		{name: "socketpair", args: args(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), want: allow},
		{name: "socketpair", args: args(unix.AF_UNIX|high, unix.SOCK_SEQPACKET|high), want: allow},
		{name: "socketpair", args: args(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), want: eperm, unix: allow},
		{name: "socketpair", args: args(unix.AF_UNIX, unix.SOCK_DGRAM|1<<32), want: eperm, unix: allow},
		{name: "socketpair", args: args(unix.AF_UNIX, unix.SOCK_RAW), want: eperm, unix: allow},
		{name: "socketpair", args: args(unix.AF_UNIX, 8|unix.SOCK_STREAM), want: eperm, unix: allow}, // no kind there is
		{name: "socketpair", args: args(unix.AF_TIPC, unix.SOCK_STREAM), want: eperm},
		{name: "socketpair", args: args(unix.AF_INET, unix.SOCK_STREAM), want: eperm},
	}
	for _, flag := range []uint64{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET,
		unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWTIME} {
		rows = append(rows, row{name: "clone", args: args(flag | uint64(unix.SIGCHLD)), want: eperm})
	}
	for family := range uint64(64) {
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
		default:
			rows = append(rows, row{name: "socket", args: args(family, unix.SOCK_STREAM), want: eperm})
		}
	}
	return rows
}

// byMode are the calls that set the mode of a file.
func byMode() (rows []row) {
	for _, c := range []struct {
		name string
		args func(mode uint64) [6]uint64
	}{
		{"chmod", func(m uint64) [6]uint64 { return args(0, m) }},
		{"fchmod", func(m uint64) [6]uint64 { return args(0, m) }},
		{"fchmodat", func(m uint64) [6]uint64 { return args(0, 0, m) }},
		{"creat", func(m uint64) [6]uint64 { return args(0, m) }},
		{"mknod", func(m uint64) [6]uint64 { return args(0, unix.S_IFIFO|m) }},
		{"mknodat", func(m uint64) [6]uint64 { return args(0, 0, unix.S_IFREG|m) }},
		{"mkdir", func(m uint64) [6]uint64 { return args(0, m) }},
		{"mkdirat", func(m uint64) [6]uint64 { return args(0, 0, m) }},
		{"open", func(m uint64) [6]uint64 { return args(0, unix.O_CREAT|unix.O_WRONLY, m) }},
		{"open", func(m uint64) [6]uint64 { return args(0, unix.O_TMPFILE|unix.O_RDWR, m) }},
		{"openat", func(m uint64) [6]uint64 { return args(0, 0, unix.O_CREAT|unix.O_EXCL|high, m) }},
		{"openat", func(m uint64) [6]uint64 { return args(0, 0, unix.O_TMPFILE|unix.O_RDWR, m) }},
	} {
		for _, mode := range []uint64{0, 0o644, 0o1777, 0o777 | high} {
			rows = append(rows, row{name: c.name, args: c.args(mode), want: allow})
		}
		for _, mode := range []uint64{0o4755, 0o2755, 0o6000, 0o4000 | high, 0o7777} {
			rows = append(rows, row{name: c.name, args: c.args(mode), want: eperm})
		}
	}
	return append(rows,
		// What is in the register of the mode says nothing if no file is made.
		row{name: "open", args: args(0, unix.O_RDONLY, 0o4755), want: allow},
		row{name: "openat", args: args(0o4755, 0o4755, unix.O_RDWR|unix.O_DIRECTORY|unix.O_TRUNC, 0o4755), want: allow},
		row{name: "openat", args: args(0, 0, unix.O_RDONLY|unix.O_CREAT<<32, 0o4755), want: allow},
		row{name: "chmod", args: args(0o4755, 0o755, 0o4755), want: allow},
		row{name: "fchmodat", args: args(0o4755, 0o4755, 0o755, 0o4755), want: allow})
}
