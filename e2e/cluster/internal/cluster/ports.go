package cluster

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// listenOnLoopback opens a listening socket on the host's loopback, to be inherited by a supervisor. Nobody can take
// the port between here and there. Port 0 takes a free one.
func listenOnLoopback(port int) (*os.File, string, error) {
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, "", fmt.Errorf("cannot listen on loopback: %w", err)
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	return file, listener.Addr().String(), err
}

// holdPorts binds free loopback ports without listening. Who also says SO_REUSEPORT can listen on one, nobody else.
func holdPorts(count int) (held []*os.File, ports []int, err error) {
	for range count {
		file, port, err := holdPort()
		if err != nil {
			return nil, nil, fmt.Errorf("cannot hold a loopback port: %w", err)
		}
		held, ports = append(held, file), append(ports, port)
	}
	return held, ports, nil
}

func holdPort() (*os.File, int, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	file := os.NewFile(uintptr(socket), "held")
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return nil, 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, 0, err
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		return nil, 0, err
	}
	return file, bound.(*unix.SockaddrInet4).Port, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}
