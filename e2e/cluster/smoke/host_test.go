//go:build smoke

package smoke

import (
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/statefulspark/e2e/cluster/internal/cgroup"
)

// hostState is everything of the host that a cluster could change, by name.
type hostState map[string]string

var unnamespacedSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
	"kernel/keys/root_maxbytes", "net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter", "net/netfilter/nf_conntrack_max",
}

var nodeDirectories = []string{
	"/etc/cni", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/opt/containerd",
	"/usr/libexec/kubernetes", "/run/containerd", "/run/netns",
}

func observeHost(t *testing.T) hostState {
	t.Helper()
	state := hostState{}
	for name, command := range map[string][]string{
		"links":  {"ip", "-o", "link"},
		"routes": {"ip", "route", "show", "table", "all"},
		"tables": {"iptables-save"},
		"rules":  {"nft", "list", "ruleset"},
	} {
		output, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", strings.Join(command, " "), err)
		}
		state[name] = string(output)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	state["mounts"] = string(mounts)
	state["control groups"] = strings.Join(clusterGroups(), "\n")
	for _, setting := range unnamespacedSettings {
		value, _ := os.ReadFile("/proc/sys/" + setting)
		state[setting] = string(value)
	}
	for _, directory := range nodeDirectories {
		entries, _ := filepath.Glob(directory + "/*")
		state[directory] = strings.Join(entries, "\n")
	}
	return state
}

func clusterGroups() []string {
	var found []string
	for _, pattern := range []string{"e2e-cluster-smoke*", "*/e2e-cluster-smoke*", "*/kubepods*"} {
		groups, _ := filepath.Glob(filepath.Join(cgroup.Mount, pattern))
		found = append(found, groups...)
	}
	sort.Strings(found)
	return found
}

func compareHosts(t *testing.T, before, after hostState) {
	t.Helper()
	for name, value := range before {
		if after[name] != value {
			t.Errorf("%s changed on the host:\nbefore: %s\nafter: %s", name, value, after[name])
		}
	}
}
