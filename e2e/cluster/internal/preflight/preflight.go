// Package preflight finds the programs a cluster is made of and says in one sentence what is missing.
package preflight

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/cgroup"
)

// Tools are where the host's programs are.
type Tools struct {
	Containerd, Ctr, CNIBinDir string
}

var packages = map[string]string{
	"containerd": "containerd", "containerd-shim-runc-v2": "containerd", "ctr": "containerd", "runc": "runc",
	"iptables": "iptables", "iptables-save": "iptables", "mount": "mount",
	"nft": "nftables",
}

const bridgeSetting = "/proc/sys/net/bridge/bridge-nf-call-iptables"

var cniPlugins = []string{"bridge", "host-local", "loopback", "portmap"}

// Check returns the tools, or an error that names the first thing missing and what to do about it.
func Check() (Tools, error) {
	if os.Geteuid() != 0 {
		return Tools{}, fmt.Errorf("a cluster with nodes needs root (namespaces, mounts, control groups): " +
			"run as root, or set KUBECONFIG to a cluster you have, or use `cluster api up`, which needs no root")
	}
	for program, debianPackage := range packages {
		if _, err := exec.LookPath(program); err != nil {
			return Tools{}, fmt.Errorf("%s is missing: apt-get install %s", program, debianPackage)
		}
	}
	cni, err := findCNI(os.Getenv("CNI_BIN_DIR"), "/usr/lib/cni", "/opt/cni/bin")
	if err != nil {
		return Tools{}, err
	}
	if _, err := cgroup.Hierarchies(); err != nil {
		return Tools{}, fmt.Errorf("%w: start this machine or container with control groups mounted and writable", err)
	}
	if err := errors.Join(namespacesWork(), bridgesAreFiltered(bridgeSetting)); err != nil {
		return Tools{}, err
	}
	containerd, _ := exec.LookPath("containerd")
	ctr, _ := exec.LookPath("ctr")
	return Tools{Containerd: containerd, Ctr: ctr, CNIBinDir: cni}, nil
}

func findCNI(candidates ...string) (string, error) {
	for _, directory := range candidates {
		if directory != "" && len(missingPlugins(directory)) == 0 {
			return directory, nil
		}
	}
	return "", fmt.Errorf("the CNI plugins %s are missing: apt-get install containernetworking-plugins, "+
		"or set CNI_BIN_DIR to where they are", strings.Join(cniPlugins, ", "))
}

func missingPlugins(directory string) []string {
	var missing []string
	for _, plugin := range cniPlugins {
		if unix.Access(filepath.Join(directory, plugin), unix.X_OK) != nil {
			missing = append(missing, plugin)
		}
	}
	return missing
}

// bridgesAreFiltered tells whether rules see what passes between the pods of one node.
func bridgesAreFiltered(setting string) error {
	if _, err := os.Stat(setting); err != nil {
		return fmt.Errorf("there is no %s, so nothing between pods of one node can be filtered: modprobe br_netfilter", setting)
	}
	return nil
}

func namespacesWork() error {
	probe := exec.Command("/proc/self/exe", "version")
	probe.SysProcAttr = namespaceAttributes()
	if err := probe.Run(); err != nil {
		return fmt.Errorf("this machine allows no new namespaces (%w): in a container, start it privileged", err)
	}
	return nil
}
