// Package process remembers processes by pid and start time, so that a pid that was given to somebody else is never
// signalled, and waits for their end without polling.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Record identifies one process for good: the pid alone is reused by the kernel.
type Record struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks"`
}

// Capture records a running process.
func Capture(pid int) (Record, error) {
	_, start, err := readStat(pid)
	if err != nil {
		return Record{}, fmt.Errorf("process %d is gone: %w", pid, err)
	}
	return Record{PID: pid, StartTicks: start}, nil
}

// Alive tells whether exactly this process runs. A zombie counts as gone: nobody may reap it for a long time.
func (r Record) Alive() bool {
	state, start, err := readStat(r.PID)
	return err == nil && start == r.StartTicks && state != "Z" && state != "X"
}

// Stop sends a signal, waits for the end and kills the process if it has not ended within the grace period.
func (r Record) Stop(signal unix.Signal, grace time.Duration) error {
	handle, err := unix.PidfdOpen(r.PID, 0)
	if err != nil || !r.Alive() {
		return nil
	}
	defer unix.Close(handle)
	if err := unix.PidfdSendSignal(handle, signal, nil, 0); err != nil {
		return nil
	}
	if waitForExit(handle, grace) {
		return nil
	}
	_ = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
	if !waitForExit(handle, 20*time.Second) {
		return fmt.Errorf("process %d is still there 20 s after SIGKILL", r.PID)
	}
	return nil
}

// Signal sends a signal to exactly this process, or does nothing if it is gone.
func (r Record) Signal(signal unix.Signal) error {
	handle, err := unix.PidfdOpen(r.PID, 0)
	if err != nil || !r.Alive() {
		return fmt.Errorf("process %d is not running", r.PID)
	}
	defer unix.Close(handle)
	return unix.PidfdSendSignal(handle, signal, nil, 0)
}

// Save writes the record.
func (r Record) Save(path string) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, body, 0o600)
}

// Load reads a record; ok is false when there is none or it is damaged.
func Load(path string) (record Record, ok bool) {
	body, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(body, &record) != nil {
		return Record{}, false
	}
	return record, true
}

// WithArguments finds the running processes one of whose arguments is exactly the given one.
func WithArguments(wanted string) []Record {
	return collect(func(pid int) bool {
		for _, argument := range Arguments(pid) {
			if argument == wanted {
				return true
			}
		}
		return false
	})
}

// Children finds the running processes whose parent is the given one.
func Children(parent int) []Record {
	return collect(func(pid int) bool {
		fields, err := statFields(pid)
		return err == nil && fields[1] == strconv.Itoa(parent)
	})
}

// Arguments are a process's command line, empty when it is gone.
func Arguments(pid int) []string {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(body) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(body), "\x00"), "\x00")
}

func collect(matches func(pid int) bool) []Record {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var found []Record
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil || pid == os.Getpid() || !matches(pid) {
			continue
		}
		if record, err := Capture(pid); err == nil && record.Alive() {
			found = append(found, record)
		}
	}
	return found
}

func waitForExit(handle int, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		left := time.Until(deadline)
		if left < 0 {
			return false
		}
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		if ready > 0 {
			return true
		}
	}
}

// statFields are the fields of /proc/PID/stat from the state on (proc(5): field 3), past the name, which may hold
// blanks and parentheses.
func statFields(pid int) ([]string, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(body[strings.LastIndexByte(string(body), ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return fields, nil
}

func readStat(pid int) (state string, startTicks uint64, err error) {
	fields, err := statFields(pid)
	if err != nil {
		return "", 0, err
	}
	startTicks, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0], startTicks, err
}
