package seccomp

// A call is a system call and its number on each architecture. The numbers are those
// of the kernel's arch/x86/entry/syscalls/syscall_64.tbl and, for arm64,
// include/uapi/asm-generic/unistd.h; the tests compare them with package unix.
type call struct {
	name         string
	amd64, arm64 int
}

// none stands for the number of a call that an architecture does not have.
const none = -1

// namespaces would change what the cage is made of, or step out of it by handle.
func namespaces() []call {
	return []call{
		{"unshare", 272, 97}, {"setns", 308, 268},
		{"mount", 165, 40}, {"umount2", 166, 39}, {"pivot_root", 155, 41}, {"chroot", 161, 51},
		{"open_by_handle_at", 304, 265}, {"name_to_handle_at", 303, 264},
	}
}

// kernel are large parts of the kernel that are not confined by a namespace, or were
// not for long, and that no tool of an agent needs.
func kernel() []call {
	return []call{
		{"add_key", 248, 217}, {"keyctl", 250, 219}, {"request_key", 249, 218},
		{"bpf", 321, 280}, {"perf_event_open", 298, 241}, {"userfaultfd", 323, 282},
		{"fanotify_init", 300, 262}, {"fanotify_mark", 301, 263},
		{"move_pages", 279, 239}, {"migrate_pages", 256, 238},
		{"modify_ldt", 154, none}, {"iopl", 172, none}, {"ioperm", 173, none},
	}
}

// administration is for the whole machine. Without capabilities most of it fails
// anyway; this holds even where a kernel forgets to ask.
func administration() []call {
	return []call{
		{"syslog", 103, 116}, {"acct", 163, 89}, {"vhangup", 153, 58},
		{"quotactl", 179, 60}, {"quotactl_fd", 443, 443},
		{"swapon", 167, 224}, {"swapoff", 168, 225},
		{"reboot", 169, 142}, {"kexec_load", 246, 104}, {"kexec_file_load", 320, 294},
		{"init_module", 175, 105}, {"finit_module", 313, 273}, {"delete_module", 176, 106},
		{"clock_settime", 227, 112}, {"settimeofday", 164, 170},
		{"sethostname", 170, 161}, {"setdomainname", 171, 162},
	}
}

// obsolete are calls that only old kernels have, or that nothing has used for decades.
func obsolete() []call {
	return []call{
		{"uselib", 134, none}, {"_sysctl", 156, none},
		{"create_module", 174, none}, {"query_module", 178, none}, {"get_kernel_syms", 177, none},
		{"nfsservctl", 180, 42}, {"lookup_dcookie", 212, 18},
	}
}

// debugging looks into other processes, and could take the descriptors or the memory
// of pi, its key included, from a tool that pi started.
func debugging() []call {
	return []call{
		{"ptrace", 101, 117}, {"process_vm_readv", 310, 270}, {"process_vm_writev", 311, 271},
		{"pidfd_getfd", 438, 438}, {"kcmp", 312, 272},
	}
}

// superseded answer as on a kernel that is older than they are, on which programs know
// what else to call. EPERM instead would make them give up.
func superseded() []call {
	return []call{
		{"clone3", 435, 435}, {"openat2", 437, 437}, {"fchmodat2", 452, 452},
		// An io_uring makes calls that pass no filter.
		{"io_uring_setup", 425, 425}, {"io_uring_enter", 426, 426}, {"io_uring_register", 427, 427},
		// The newer way to mount.
		{"open_tree", 428, 428}, {"open_tree_attr", 467, 467}, {"move_mount", 429, 429},
		{"fsopen", 430, 430}, {"fsconfig", 431, 431}, {"fsmount", 432, 432}, {"fspick", 433, 433},
		{"mount_setattr", 442, 442},
		// What other namespaces there are is no business of an agent's.
		{"listns", 470, 470},
	}
}
