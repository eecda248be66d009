// Package supervisor runs the processes of one machine: it starts each when what it needs answers, starts it again
// when it dies, reaps whatever is left to it, and takes all of them with it when it goes.
//
// A supervisor is pid 1 of a node or of the control plane (in a pid namespace of its own, so killing it is cutting the
// power), or an ordinary process where no root is to be had. It knows nothing of Kubernetes.
package supervisor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Unit is one process that is kept running.
type Unit struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
	// After are addresses that answer before the process is started; see reachable.
	After []string `json:"after,omitempty"`
	Log   string   `json:"log"`
}

// Forward passes connections from a listening socket the supervisor inherits to an address in its own network
// namespace (host:port, or @name for an abstract UNIX socket). A socket stays in the namespace it was opened in: this
// is how the host's loopback reaches the cluster.
type Forward struct {
	FileDescriptor int    `json:"fileDescriptor"`
	To             string `json:"to"`
}

// Stack is everything one supervisor runs.
type Stack struct {
	Units    []Unit    `json:"units"`
	Forwards []Forward `json:"forwards,omitempty"`
	// Held are inherited sockets bound with SO_REUSEPORT: they keep a port from anybody but a unit that shares it.
	Held []int `json:"held,omitempty"`
	// StoppedDir holds a file for each unit that shall not run; SIGHUP makes the supervisor look again.
	StoppedDir string `json:"stoppedDir"`
}

// Load reads a stack.
func Load(path string) (Stack, error) {
	var stack Stack
	body, err := os.ReadFile(path)
	if err != nil {
		return stack, err
	}
	if err := json.Unmarshal(body, &stack); err != nil {
		return stack, fmt.Errorf("%s is no stack: %w", path, err)
	}
	return stack, nil
}

// Save writes a stack.
func (s Stack) Save(path string) error {
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, body, 0o600)
}

func (s Stack) isStopped(unit string) bool {
	_, err := os.Stat(filepath.Join(s.StoppedDir, unit))
	return err == nil
}
