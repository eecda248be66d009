// Package cgroup makes and removes the control groups below which the nodes put their pods. They are the one thing a
// cluster has in a space shared with the host.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mount is where the host's control groups are.
const Mount = "/sys/fs/cgroup"

// v2Controllers are those a kubelet needs; cgroup v2 hands them down only where subtree_control says so.
var v2Controllers = []string{"cpu", "cpuset", "io", "memory", "pids"}

// Hierarchies are the roots below which a group has to exist: one on cgroup v2, one per controller on v1.
func Hierarchies() ([]string, error) {
	if isV2() {
		return []string{Mount}, nil
	}
	entries, err := os.ReadDir(Mount)
	if err != nil {
		return nil, fmt.Errorf("no control groups are mounted at %s: %w", Mount, err)
	}
	var roots []string
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "unified" { // cpu,cpuacct and the like are links to one of these
			roots = append(roots, filepath.Join(Mount, entry.Name()))
		}
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no control groups are mounted at %s", Mount)
	}
	return roots, nil
}

// Create makes a group (a path relative to the roots) in every hierarchy.
func Create(group string) error {
	roots, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := createBelow(root, group); err != nil {
			return fmt.Errorf("cannot make the control group %s below %s: %w", group, root, err)
		}
	}
	return nil
}

func createBelow(root, group string) error {
	parent := root
	for _, name := range strings.Split(group, "/") {
		if isV2() {
			if err := handDown(parent); err != nil {
				return err
			}
		}
		child := filepath.Join(parent, name)
		if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if filepath.Base(root) == "cpuset" {
			if err := inheritCPUs(parent, child); err != nil {
				return err
			}
		}
		parent = child
	}
	if isV2() {
		return handDown(parent)
	}
	return nil
}

// handDown lets children of a cgroup v2 group use the controllers. The kernel refuses with EBUSY where the group
// itself holds processes, which is the case in a container that has no group to spare.
func handDown(group string) error {
	for _, controller := range v2Controllers {
		err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s holds processes, so cgroup v2 hands no controllers down: move them to a child group", group)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: this kernel does not have the controller
			return err
		}
	}
	return nil
}

// inheritCPUs fills what cgroup v1 leaves empty in a new cpuset; a process can't enter an empty one.
func inheritCPUs(parent, child string) error {
	for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, setting))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(child, setting), value, 0); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a group with everything below it, in every hierarchy. The kernel keeps a group until the last of its
// processes is fully gone, which a kill does not wait for: it is tried until then.
func Remove(group string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		left := Existing(group)
		for _, path := range left {
			removeTree(path)
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the control groups %s still hold processes", strings.Join(left, ", "))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Existing lists the directories of a group that are there.
func Existing(group string) []string {
	roots, err := Hierarchies()
	if err != nil {
		return nil
	}
	var found []string
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, group)); err == nil {
			found = append(found, filepath.Join(root, group))
		}
	}
	return found
}

func removeTree(path string) {
	entries, _ := os.ReadDir(path)
	for _, entry := range entries {
		if entry.IsDir() {
			removeTree(filepath.Join(path, entry.Name()))
		}
	}
	_ = unix.Rmdir(path)
}

func isV2() bool {
	_, err := os.Stat(filepath.Join(Mount, "cgroup.controllers"))
	return err == nil
}
