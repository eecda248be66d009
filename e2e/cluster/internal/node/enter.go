// Package node is the inside of a node: what its pid 1 does in its own namespaces before it supervises containerd,
// kubelet, kube-proxy and the enforcer of NetworkPolicies.
//
// A node sees the host's files, but what it writes where a node usually writes (/run, /var) lands in its own
// directory or in memory, and the kernel settings a kubelet insists on only look changed. It dies as a machine does:
// kill pid 1, and the kernel takes the processes, mounts and cables away.
package node

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/layout"
)

// kept are the directories that survive the node's death, as a disk does. The rest of /var is forgotten.
var kept = []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"}

// kubeletSysctls are the settings a kubelet would write. They have no namespace: the host would change with them.
var kubeletSysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// Enter turns the calling process, pid 1 of fresh mount, network, pid and uts namespaces, into the node.
func Enter(cluster layout.Cluster, number int) error {
	if err := unix.Sethostname([]byte(layout.NodeName(number))); err != nil {
		return fmt.Errorf("cannot set the node's host name: %w", err)
	}
	dir, err := unix.Open(cluster.Dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", cluster.Dir, err)
	}
	defer unix.Close(dir)
	for _, step := range []func() error{
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return mount("proc", "/proc", "proc", 0, "") },
		func() error { return mount("tmpfs", "/run", "tmpfs", 0, "mode=755") },
		forgetfulVar,
		func() error { return restore(dir, cluster.Dir) },
		func() error { return bindKept(cluster.NodeDir(number)) },
		pretendSysctls,
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// forgetfulVar lays memory over /var: the host's files show through, what is written stays in the node.
func forgetfulVar() error {
	const upper, work = "/run/var/upper", "/run/var/work"
	for _, directory := range []string{upper, work, "/run/netns", "/run/lock"} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	return mount("overlay", "/var", "overlay", 0, "lowerdir=/var,upperdir="+upper+",workdir="+work)
}

// restore shows the cluster's directory where it was, should it lie below /var or /run.
func restore(handle int, path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return mount(fmt.Sprintf("/proc/self/fd/%d", handle), path, "", unix.MS_BIND, "")
}

func bindKept(nodeDir string) error {
	for _, path := range kept {
		own := filepath.Join(nodeDir, path)
		for _, directory := range []string{own, path} {
			if err := os.MkdirAll(directory, 0o755); err != nil {
				return err
			}
		}
		if err := mount(own, path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func pretendSysctls() error {
	for name, value := range kubeletSysctls {
		pretended := filepath.Join("/run/sysctl", name)
		if err := os.MkdirAll(filepath.Dir(pretended), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(pretended, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := mount(pretended, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("cannot mount %s%s at %s in the node: %w", kind, source, target, err)
	}
	return nil
}
