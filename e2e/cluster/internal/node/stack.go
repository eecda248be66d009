package node

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/render"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	policiesSocket   = "/run/network-policies.sock"
)

// Tools are the programs a node runs.
type Tools struct {
	Self, Containerd, CNIBinDir string
}

// Prepare writes the node's configuration files and returns what it runs.
func Prepare(cluster layout.Cluster, number int, tools Tools) (supervisor.Stack, error) {
	dir := cluster.NodeDir(number)
	for name, text := range configuration(cluster, number, tools) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return supervisor.Stack{}, err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return supervisor.Stack{}, err
		}
	}
	return stack(cluster, number, tools), nil
}

// ContainerdSocket is the node's container runtime as the host reaches it.
func ContainerdSocket(nodePID int) string {
	return fmt.Sprintf("/proc/%d/root%s", nodePID, containerdSocket)
}

// PoliciesSocket answers when NetworkPolicies are in force on the node.
func PoliciesSocket(nodePID int) string {
	return fmt.Sprintf("/proc/%d/root%s", nodePID, policiesSocket)
}

func configuration(cluster layout.Cluster, number int, tools Tools) map[string]string {
	dir := cluster.NodeDir(number)
	return map[string]string{
		"cni/10-pods.conflist": render.Render("cni.conflist", render.CNI{PodSubnet: layout.PodSubnet(number)}),
		"resolv.conf":          "nameserver " + layout.ControlAddress + "\n",
		"containerd.toml": render.Render("containerd.toml", render.Containerd{
			Snapshotter: snapshotter(cluster.Dir), CNIBinDir: tools.CNIBinDir, CNIConfDir: filepath.Join(dir, "cni"),
		}),
		"kubelet.yaml": render.Render("kubelet.yaml", render.Kubelet{
			AuthorityFile: cluster.Path("pki", "ca.crt"), CgroupRoot: cluster.NodeCgroup(number),
			DNSService: layout.DNSService, ResolvConf: filepath.Join(dir, "resolv.conf"),
			PluginDir: filepath.Join(dir, "volume-plugins"),
		}),
	}
}

func stack(cluster layout.Cluster, number int, tools Tools) supervisor.Stack {
	name, dir := layout.NodeName(number), cluster.NodeDir(number)
	apiServer := fmt.Sprintf("https://%s:%d/readyz", layout.ControlAddress, layout.APIServerPort)
	unit := func(program string, after []string, args ...string) supervisor.Unit {
		return supervisor.Unit{Name: program, Args: args, After: after, Log: cluster.Log(name + "." + program)}
	}
	return supervisor.Stack{
		StoppedDir: filepath.Join(dir, "stopped"),
		Units: []supervisor.Unit{
			unit("containerd", nil, tools.Containerd, "--config", filepath.Join(dir, "containerd.toml")),
			unit("kubelet", []string{apiServer, "unix://" + containerdSocket},
				tools.Self, "kubelet", "--config", filepath.Join(dir, "kubelet.yaml"),
				"--kubeconfig", cluster.Path("kubeconfigs", name), "--hostname-override", name,
				"--node-ip", layout.NodeAddress(number), "--v", "2"),
			// The conntrack limits have no namespace either: 0 leaves them as they are.
			unit("kube-proxy", []string{apiServer},
				tools.Self, "kube-proxy", "--kubeconfig", cluster.Path("kubeconfigs", "kube-proxy"),
				"--hostname-override", name, "--proxy-mode", "iptables", "--cluster-cidr", layout.PodRange,
				"--iptables-min-sync-period", "200ms", "--conntrack-max-per-core", "0", "--conntrack-min", "0",
				"--conntrack-tcp-timeout-established", "0", "--conntrack-tcp-timeout-close-wait", "0",
				"--oom-score-adj", "0"),
			unit("network-policies", []string{apiServer},
				tools.Self, "network-policies", "--kubeconfig", cluster.Path("kubeconfigs", "network-policies"),
				"--node", name, "--socket", policiesSocket),
		},
	}
}

// snapshotter picks plain copies where the directory lies on an overlay: the kernel stacks no second one on it.
func snapshotter(dir string) string {
	var filesystem unix.Statfs_t
	if unix.Statfs(dir, &filesystem) == nil && filesystem.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}
