package seccomp

import "golang.org/x/sys/unix"

// A rule is what happens to any of some calls. No call is in two rules: the second
// would never see it.
type rule struct {
	calls []call
	then  []step // every path returns
}

// rules has the tests of arguments first. The kernel remembers that a call is allowed
// if the filter did not look further than its number, so that the order matters only
// for the others, and open is among those.
func rules(o Options) []rule {
	refused := []call{}
	for _, list := range [][]call{namespaces(), kernel(), administration(), obsolete()} {
		refused = append(refused, list...)
	}
	if !o.Debug {
		refused = append(refused, debugging()...)
	}
	all := append(modes(), rule{[]call{{"clone", 56, 220}}, unlessBits(0, newNamespaces)})
	all = append(all, terminals(), sockets(o.Unix), pairs(o.Unix))
	return append(all,
		rule{refused, []step{fail(unix.EPERM)}},
		rule{superseded(), []step{fail(unix.ENOSYS)}})
}

// newNamespaces are the flags of clone. CLONE_NEWTIME lies within what clone takes for
// the number of a signal; no signal has that bit.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// terminals refuses the two ioctls that type into the terminal which a process has,
// where the user's shell would read it.
func terminals() rule {
	typing := when([]uint32{unix.TIOCSTI, unix.TIOCLINUX}, []step{fail(unix.EPERM)})
	return rule{[]call{{"ioctl", 16, 29}}, join(
		[]step{loadArg(1)}, typing, []step{ret(unix.SECCOMP_RET_ALLOW)})}
}

// sockets allows families by name, because a kernel has dozens and loads the modules
// of most on demand. AF_VSOCK would talk to the machine's host, AF_ALG and AF_PACKET to
// its kernel.
func sockets(files bool) rule {
	families := []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	if files {
		families = append(families, unix.AF_UNIX)
	}
	return rule{[]call{{"socket", 41, 198}}, join([]step{loadArg(0)}, only(families))}
}

// pairs allows socketpair of AF_UNIX, which is how node talks to its children. A
// connected stream stays with its peer, but a datagram socket can be connected anew or
// given an address to send to, so a pair of those is as good as socket. SOCK_RAW is
// another name for it.
func pairs(files bool) rule {
	r := rule{calls: []call{{"socketpair", 53, 199}}}
	if files {
		r.then = join([]step{loadArg(0)}, only([]uint32{unix.AF_UNIX}))
		return r
	}
	r.then = join(
		[]step{loadArg(0), jump(jumpEqual, unix.AF_UNIX, 1, 0), fail(unix.EPERM)},
		[]step{loadArg(1), {code: mask, k: sockTypeMask}},
		only([]uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}))
	return r
}

// sockTypeMask is SOCK_TYPE_MASK of the kernel's include/linux/net.h; the bits above
// it are SOCK_CLOEXEC and SOCK_NONBLOCK.
const sockTypeMask = 0xf

// only allows the calls whose loaded argument is one of values.
func only(values []uint32) []step {
	return append(when(values, []step{ret(unix.SECCOMP_RET_ALLOW)}), fail(unix.EPERM))
}

// unlessBits allows the calls whose argument has none of bits.
func unlessBits(arg int, bits uint32) []step {
	return []step{
		loadArg(arg), jump(jumpBits, bits, 0, 1), fail(unix.EPERM),
		ret(unix.SECCOMP_RET_ALLOW),
	}
}

func join(parts ...[]step) (all []step) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
