package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

func unitOf(t *testing.T, number int, name string) supervisor.Unit {
	t.Helper()
	cluster, err := layout.New("/somewhere/cluster", "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range stack(cluster, number, Tools{Self: "/bin/cluster", Containerd: "/bin/containerd"}).Units {
		if unit.Name == name {
			return unit
		}
	}
	t.Fatalf("a node runs no %s", name)
	return supervisor.Unit{}
}

func TestAKubeletIsItsNodeAndUsesItsNodesAddress(t *testing.T) {
	arguments := strings.Join(unitOf(t, 2, "kubelet").Args, " ")
	for _, wanted := range []string{"--hostname-override n2", "--node-ip 10.201.0.12", "--kubeconfig /somewhere/cluster/kubeconfigs/n2"} {
		if !strings.Contains(arguments, wanted) {
			t.Errorf("%q is not in %q", wanted, arguments)
		}
	}
}

func TestAKubeletStartsWhenRuntimeAndAPIServerAnswer(t *testing.T) {
	want := []string{"https://10.201.0.1:6443/readyz", "unix:///run/containerd/containerd.sock"}
	if got := unitOf(t, 1, "kubelet").After; !slices.Equal(got, want) {
		t.Fatalf("want %v, got %v", want, got)
	}
}

func TestKubeProxyLeavesTheMachinesConnectionTableAlone(t *testing.T) {
	arguments := strings.Join(unitOf(t, 1, "kube-proxy").Args, " ")
	for _, wanted := range []string{"--conntrack-max-per-core 0", "--conntrack-min 0"} {
		if !strings.Contains(arguments, wanted) {
			t.Errorf("%q is not in %q", wanted, arguments)
		}
	}
}

func TestNetworkPoliciesAreEnforcedForTheNodesOwnPods(t *testing.T) {
	arguments := strings.Join(unitOf(t, 2, "network-policies").Args, " ")
	for _, wanted := range []string{"--node n2", "--socket /run/network-policies.sock", "--kubeconfig /somewhere/cluster/kubeconfigs/network-policies"} {
		if !strings.Contains(arguments, wanted) {
			t.Errorf("%q is not in %q", wanted, arguments)
		}
	}
}
