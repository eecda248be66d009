// Package controlplane says how the control plane's processes are started: alike in a cluster with nodes and where
// there is only an API server.
package controlplane

import (
	"fmt"
	"path/filepath"

	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

// Endpoints are the addresses the control plane listens on.
type Endpoints struct {
	// BindAddress and AdvertiseAddress are the API server's: where it listens, and what pods are told.
	BindAddress, AdvertiseAddress         string
	APIServerPort, EtcdPort, EtcdPeerPort int
}

// InCluster are the endpoints in a namespace of the control plane's own, where every port is free.
var InCluster = Endpoints{
	BindAddress: "0.0.0.0", AdvertiseAddress: layout.ControlAddress,
	APIServerPort: layout.APIServerPort, EtcdPort: 2379, EtcdPeerPort: 2380,
}

// ReadyURL answers when the API server serves.
func (e Endpoints) ReadyURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d/readyz", e.APIServerPort)
}

// Hosts are the names and addresses the API server's certificate is for.
func Hosts(e Endpoints) []string {
	return []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
		"127.0.0.1", e.AdvertiseAddress, layout.KubernetesService,
	}
}

type units struct {
	cluster   layout.Cluster
	self      string
	endpoints Endpoints
}

// ServerUnits are the API server and its store.
func ServerUnits(cluster layout.Cluster, self string, endpoints Endpoints) []supervisor.Unit {
	u := units{cluster, self, endpoints}
	return []supervisor.Unit{u.etcd(), u.apiServer()}
}

// ControllerUnit is the controller-manager; no controllers named means all of them.
func ControllerUnit(cluster layout.Cluster, self string, endpoints Endpoints, controllers string) supervisor.Unit {
	u := units{cluster, self, endpoints}
	args := []string{
		"--kubeconfig", cluster.Path("kubeconfigs", "kube-controller-manager"), "--leader-elect=false", "--secure-port", "0",
		"--service-account-private-key-file", u.pki("service-accounts.key"), "--root-ca-file", u.pki("ca.crt"),
		"--use-service-account-credentials", "--allocate-node-cidrs=false",
		"--cluster-signing-cert-file", u.pki("ca.crt"), "--cluster-signing-key-file", u.pki("ca.key"),
		// A lost node is noticed in 8 s and emptied at once.
		"--node-monitor-period", "1s", "--node-monitor-grace-period", "8s",
		"--node-eviction-rate", "10", "--secondary-node-eviction-rate", "10",
		// The default lies below /usr/libexec, which is the host's.
		"--flex-volume-plugin-dir", cluster.Path("run", "volume-plugins"),
	}
	if controllers != "" {
		args = append(args, "--controllers", controllers)
	}
	return u.unit("kube-controller-manager", args...)
}

// SchedulerUnit is the scheduler.
func SchedulerUnit(cluster layout.Cluster, self string, endpoints Endpoints) supervisor.Unit {
	u := units{cluster, self, endpoints}
	return u.unit("kube-scheduler", "--kubeconfig", cluster.Path("kubeconfigs", "kube-scheduler"), "--leader-elect=false",
		"--secure-port", "0")
}

func (u units) etcd() supervisor.Unit {
	client := fmt.Sprintf("http://127.0.0.1:%d", u.endpoints.EtcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", u.endpoints.EtcdPeerPort)
	unit := u.unit("etcd", "--data-dir", u.cluster.Path("etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		// The data is thrown away with the cluster; the ports may be held by the supervisor.
		"--unsafe-no-fsync", "--socket-reuse-port", "--log-level", "warn")
	unit.After = nil
	return unit
}

func (u units) apiServer() supervisor.Unit {
	unit := u.unit("kube-apiserver",
		"--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", u.endpoints.EtcdPort),
		"--bind-address", u.endpoints.BindAddress, "--secure-port", fmt.Sprint(u.endpoints.APIServerPort),
		"--permit-port-sharing", "--advertise-address", u.endpoints.AdvertiseAddress,
		"--tls-cert-file", u.pki("kube-apiserver.crt"), "--tls-private-key-file", u.pki("kube-apiserver.key"),
		"--client-ca-file", u.pki("ca.crt"), "--token-auth-file", u.pki("tokens.csv"), "--cert-dir", u.cluster.Path("pki"),
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--allow-privileged",
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", u.pki("service-accounts.key"),
		"--service-account-signing-key-file", u.pki("service-accounts.key"),
		"--service-cluster-ip-range", layout.ServiceRange,
		"--kubelet-client-certificate", u.pki("kubelet-client.crt"), "--kubelet-client-key", u.pki("kubelet-client.key"),
		"--kubelet-preferred-address-types", "InternalIP",
		// No kube-proxy beside the API server: it reaches webhooks and extension servers at their pods' addresses.
		"--enable-aggregator-routing",
		"--default-not-ready-toleration-seconds", "5", "--default-unreachable-toleration-seconds", "5")
	unit.After = []string{fmt.Sprintf("http://127.0.0.1:%d/health", u.endpoints.EtcdPort)}
	return unit
}

func (u units) unit(program string, args ...string) supervisor.Unit {
	return supervisor.Unit{
		Name: program, Args: append([]string{u.self, program}, args...), Log: u.cluster.Log(program),
		After: []string{u.endpoints.ReadyURL()},
	}
}

func (u units) pki(name string) string { return filepath.Join(u.cluster.Path("pki"), name) }
