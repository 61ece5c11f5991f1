package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// network are the probes of sockets.
func network() []probe {
	return []probe{
		{54, "connect to a socket in a read grant", func(w World) (string, error) { return dial("unix", w.Read+"/docker.sock") }},
		{55, "connect to an abstract socket", func(w World) (string, error) { return dial("unix", "@"+filepath.Base(w.Dir)) }},
		{56, "find the socket of ssh-agent", func(w World) (string, error) {
			_, err := os.Stat(w.Home + "/agent.sock")
			return "there", err
		}},
		{57, "connect to the host's loopback, IPv4", func(w World) (string, error) { return dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.Port4)) }},
		{58, "connect to the host's loopback, IPv6", func(w World) (string, error) {
			if w.Port6 == 0 {
				return "", errors.New("the host has none")
			}
			return dial("tcp", fmt.Sprintf("[::1]:%d", w.Port6))
		}},
		{59, "a route to a network or to 169.254.169.254", routes},
		{60, "a socket of AF_VSOCK", func(World) (string, error) { return socket(unix.AF_VSOCK, unix.SOCK_STREAM) }},
		{61, "a socket of AF_PACKET", func(World) (string, error) { return socket(unix.AF_PACKET, unix.SOCK_RAW) }},
		{62, "a socket of AF_ALG", func(World) (string, error) { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET) }},
	}
}

func dial(kind, address string) (string, error) {
	conn, err := net.DialTimeout(kind, address, 5*time.Second)
	if err != nil {
		return "", err
	}
	return "connected", conn.Close()
}

// routes sends nothing: a datagram socket is connected where there is a route.
func routes(World) (string, error) {
	links, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, link := range links {
		if link.Flags&net.FlagLoopback == 0 && link.Flags&net.FlagUp != 0 {
			return "link " + link.Name, nil
		}
	}
	return anyOf(func() (string, error) { return dial("udp", "169.254.169.254:80") },
		func() (string, error) { return dial("udp", "192.0.2.1:80") })
}

func socket(family, kind int) (string, error) {
	return descriptor(unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0))
}
