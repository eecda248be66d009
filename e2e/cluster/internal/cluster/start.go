// Package cluster brings clusters up and down: it starts the supervisors, cables them, waits for conditions and cleans
// up. Every supervisor is recorded by pid and start time, and carries the path of its stack as an argument, so that it
// is found even if its record was never written.
package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/process"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

// machine is a supervisor and what it runs: the control plane, a node, or one of them without namespaces.
type machine struct {
	cluster layout.Cluster
	name    string
}

func (m machine) stackPath() string  { return m.cluster.Path("run", m.name+".stack.json") }
func (m machine) recordPath() string { return m.cluster.Path("run", m.name+".pid.json") }
func (m machine) logPath() string    { return m.cluster.Log(m.name + ".supervisor") }

// start runs the supervisor. It starts its units when the returned starting gun is closed.
func (m machine) start(self string, stack supervisor.Stack, flags uintptr, inherited []*os.File, args ...string) (process.Record, io.Closer, error) {
	for _, directory := range []string{m.cluster.Path("run"), m.cluster.Path("log"), stack.StoppedDir} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return process.Record{}, nil, err
		}
	}
	if err := stack.Save(m.stackPath()); err != nil {
		return process.Record{}, nil, err
	}
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return process.Record{}, nil, err
	}
	defer log.Close()
	command := exec.Command(self, append(args, m.stackPath())...)
	command.Dir, command.Stdout, command.Stderr, command.ExtraFiles = m.cluster.Dir, log, log, inherited
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: flags}
	gun, err := command.StdinPipe()
	if err != nil {
		return process.Record{}, nil, err
	}
	if err := command.Start(); err != nil {
		return process.Record{}, nil, fmt.Errorf("cannot start %s: %w", m.name, err)
	}
	go func() { _ = command.Wait() }() // so that it is no zombie while this program runs
	record, err := process.Capture(command.Process.Pid)
	if err != nil {
		return process.Record{}, nil, fmt.Errorf("%s ended at once: see %s", m.name, m.logPath())
	}
	return record, gun, record.Save(m.recordPath())
}

// find returns the running supervisor.
func (m machine) find() (process.Record, bool) {
	if record, ok := process.Load(m.recordPath()); ok && record.Alive() {
		return record, true
	}
	for _, record := range process.WithArguments(m.stackPath()) {
		return record, true
	}
	return process.Record{}, false
}

// stop ends every supervisor of this machine, with all it runs.
func (m machine) stop(signal unix.Signal) error {
	for {
		record, running := m.find()
		if !running {
			return removeIfThere(m.recordPath())
		}
		if err := record.Stop(signal, 10*time.Second); err != nil {
			return fmt.Errorf("cannot stop %s: %w", m.name, err)
		}
	}
}

// wait returns when the condition holds; it gives up when the supervisor ends or the time is over, and says where to
// read on.
func (m machine) wait(what string, limit time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	record, running := m.find()
	if !running {
		return fmt.Errorf("%s is not running: see %s", m.name, m.logPath())
	}
	go func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for record.Alive() {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
		cancel()
	}()
	if err := condition(ctx); err != nil {
		return fmt.Errorf("%s did not come up within %s: %w; the logs are in %s", what, limit, err, filepath.Dir(m.logPath()))
	}
	return nil
}

func reachable(address string) func(context.Context) error {
	return func(ctx context.Context) error { return supervisor.WaitReachable(ctx, address) }
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Self is the path of this program; a supervisor runs it again as each of the components.
func Self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find this program's own file: %w", err)
	}
	return filepath.EvalSymlinks(path)
}

// stoppedDir is where the marks of stopped units are; it is an error if the machine does not run that unit.
func (m machine) stoppedDir(unit string) (string, error) {
	stack, err := supervisor.Load(m.stackPath())
	if err != nil {
		return "", err
	}
	var names []string
	for _, known := range stack.Units {
		if known.Name == unit {
			return stack.StoppedDir, nil
		}
		names = append(names, known.Name)
	}
	return "", fmt.Errorf("%s runs no %q; it runs %s", m.name, unit, strings.Join(names, ", "))
}
