package supervisor

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// serve accepts connections on the inherited socket for ever and carries each to its destination.
func (f Forward) serve() error {
	file := os.NewFile(uintptr(f.FileDescriptor), "forward")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("file descriptor %d is no listening socket: %w", f.FileDescriptor, err)
	}
	_ = file.Close()
	go func() {
		for {
			incoming, err := listener.Accept()
			if err != nil {
				time.Sleep(probeInterval) // out of file descriptors: those in use will be closed
				continue
			}
			go f.carry(incoming)
		}
	}()
	return nil
}

func (f Forward) carry(incoming net.Conn) {
	defer incoming.Close()
	outgoing, err := net.DialTimeout(f.network(), f.To, 10*time.Second)
	if err != nil {
		return
	}
	defer outgoing.Close()
	var directions sync.WaitGroup
	directions.Add(2)
	go pour(&directions, outgoing, incoming)
	go pour(&directions, incoming, outgoing)
	directions.Wait()
}

func (f Forward) network() string {
	if strings.HasPrefix(f.To, "@") {
		return "unix"
	}
	return "tcp"
}

// pour copies one direction and passes its end on, so that a half-closed connection stays half open.
func pour(done *sync.WaitGroup, to, from net.Conn) {
	defer done.Done()
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
