package seccomp

import "golang.org/x/sys/unix"

// setID are the bits that no file may get. The sticky bit does no harm.
const setID = unix.S_ISUID | unix.S_ISGID

// creates are the flags with which open looks at its mode. The second is O_TMPFILE
// without O_DIRECTORY, which is another bit on each architecture; it is __O_TMPFILE of
// the kernel's include/uapi/asm-generic/fcntl.h.
const creates = unix.O_CREAT | 0o20000000

// modes are all the calls that take the mode of a file. There are two more, openat2
// with its mode in memory, where no filter can look, and fchmodat2, which old kernels
// do not have: see superseded.
func modes() []rule {
	return []rule{
		{[]call{{"openat", 257, 56}}, opens(2, 3)},
		{[]call{{"open", 2, none}}, opens(1, 2)},
		{[]call{{"chmod", 90, none}, {"fchmod", 91, 52}, {"creat", 85, none}, {"mknod", 133, none}, {"mkdir", 83, none}},
			unlessBits(1, setID)},
		{[]call{{"fchmodat", 268, 53}, {"mknodat", 259, 33}, {"mkdirat", 258, 34}},
			unlessBits(2, setID)},
	}
}

// opens tests the mode only if a file may be made: without, C programs leave whatever
// the register held before.
func opens(flags, mode int) []step {
	return join(
		[]step{loadArg(flags), jump(jumpBits, creates, 1, 0), ret(unix.SECCOMP_RET_ALLOW)},
		unlessBits(mode, setID))
}
