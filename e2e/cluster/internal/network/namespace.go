// Package network cables the cluster: a bridge in the control plane's network namespace and a cable from it to each
// node's. The host's own namespace is never changed.
package network

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// inside runs work in the network namespace of a process, on a thread of its own that ends with it.
func inside(pid int, work func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread stays in the foreign namespace and must not be used again
		done <- enterAnd(pid, work)
	}()
	return <-done
}

func enterAnd(pid int, work func() error) error {
	namespace, err := openNamespace(pid)
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("cannot enter the network namespace of process %d: %w", pid, err)
	}
	return work()
}

func openNamespace(pid int) (*os.File, error) {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("process %d has no network namespace any more: %w", pid, err)
	}
	return namespace, nil
}

// setSysctl writes a net.* setting. /proc/sys/net always shows the namespace of the thread that opens it.
func setSysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+name, []byte(value), 0)
}

// runInside runs this program with other arguments in the network namespace of a process.
func runInside(ctx context.Context, pid int, args []string) error {
	return inside(pid, func() error { return exec.CommandContext(ctx, "/proc/self/exe", args...).Run() })
}
