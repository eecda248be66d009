package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	restartDelay = 300 * time.Millisecond
	stopGrace    = 3 * time.Second
)

type supervisor struct {
	stack    Stack
	byPID    map[int]Unit
	running  map[string]int
	waiting  map[string]context.CancelFunc
	runnable chan Unit
}

// Run runs the stack until SIGTERM or SIGINT, then stops every process and returns.
func Run(stack Stack) error {
	// PR_SET_PDEATHSIG fires when the *thread* that forked ends, so one thread does all the forking and stays.
	runtime.LockOSThread()
	for _, forward := range stack.Forwards {
		if err := forward.serve(); err != nil {
			return err
		}
	}
	for _, descriptor := range append(stack.Held, 0, 1, 2) {
		unix.CloseOnExec(descriptor)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGHUP, unix.SIGTERM, unix.SIGINT)
	s := &supervisor{
		stack: stack, byPID: map[int]Unit{}, running: map[string]int{},
		waiting: map[string]context.CancelFunc{}, runnable: make(chan Unit),
	}
	s.reconcile()
	s.loop(signals)
	s.stopAll(signals)
	return nil
}

func (s *supervisor) loop(signals <-chan os.Signal) {
	for {
		select {
		case unit := <-s.runnable:
			delete(s.waiting, unit.Name)
			s.start(unit)
		case received := <-signals:
			switch received {
			case unix.SIGCHLD:
				s.reap()
				s.reconcile()
			case unix.SIGHUP:
				s.reconcile()
			default:
				return
			}
		}
	}
}

// reconcile makes what runs what should run, whatever happened since it was last called.
func (s *supervisor) reconcile() {
	for _, unit := range s.stack.Units {
		pid, isRunning := s.running[unit.Name]
		cancel, isWaiting := s.waiting[unit.Name]
		stopped := s.stack.isStopped(unit.Name)
		switch {
		case stopped && isRunning:
			_ = unix.Kill(pid, unix.SIGKILL)
		case stopped && isWaiting:
			cancel()
			delete(s.waiting, unit.Name)
		case !stopped && !isRunning && !isWaiting:
			s.startWhenReachable(unit, 0)
		}
	}
}

// startWhenReachable keeps the unit in the waiting set, where reconcile leaves it, until it can be started.
func (s *supervisor) startWhenReachable(unit Unit, delay time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	s.waiting[unit.Name] = cancel
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		for _, address := range unit.After {
			if WaitReachable(ctx, address) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
		case s.runnable <- unit:
		}
	}()
}

func (s *supervisor) start(unit Unit) {
	log, err := os.OpenFile(unit.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: cannot open its log: %v\n", unit.Name, err)
		s.startWhenReachable(unit, restartDelay)
		return
	}
	defer log.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", unit.Name, err)
		s.startWhenReachable(unit, restartDelay)
		return
	}
	defer nothing.Close()
	// Not os/exec: its Wait would race with the wait for any child that pid 1 owes the orphans it inherits.
	pid, err := syscall.ForkExec(unit.Args[0], unit.Args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{nothing.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: cannot start %s: %v\n", unit.Name, unit.Args[0], err)
		s.startWhenReachable(unit, restartDelay)
		return
	}
	fmt.Fprintf(os.Stderr, "%s %s started as %d\n", time.Now().UTC().Format(time.RFC3339), unit.Name, pid)
	s.byPID[pid] = unit
	s.running[unit.Name] = pid
}

func (s *supervisor) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if pid <= 0 {
			return
		}
		unit, known := s.byPID[pid]
		if !known {
			continue
		}
		delete(s.byPID, pid)
		delete(s.running, unit.Name)
		fmt.Fprintf(os.Stderr, "%s %s ended: exit code %d, signal %v\n",
			time.Now().UTC().Format(time.RFC3339), unit.Name, status.ExitStatus(), status.Signal())
		if !s.stack.isStopped(unit.Name) {
			s.startWhenReachable(unit, restartDelay)
		}
	}
}

func (s *supervisor) stopAll(signals <-chan os.Signal) {
	s.signalAll(unix.SIGTERM)
	deadline := time.After(stopGrace)
	for len(s.byPID) > 0 {
		select {
		case <-signals:
			s.reap()
		case <-deadline:
			s.signalAll(unix.SIGKILL)
		}
	}
}

func (s *supervisor) signalAll(signal unix.Signal) {
	for pid := range s.byPID {
		_ = unix.Kill(pid, signal)
	}
}
