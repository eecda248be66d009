package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/apiclient"
	"github.com/statefulspark/e2e/cluster/internal/controlplane"
	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/network"
	"github.com/statefulspark/e2e/cluster/internal/node"
	"github.com/statefulspark/e2e/cluster/internal/preflight"
	"github.com/statefulspark/e2e/cluster/internal/render"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

const dnsUnit = "coredns"

// Progress tells a person what has just been done.
type Progress func(format string, values ...any)

// UpOptions say what kind of cluster is wanted.
type UpOptions struct {
	Nodes int
	// Pause is the archive of the image that holds a pod's namespaces; Images are more archives every node gets.
	Pause  string
	Images []string
	// Versitygw is the S3 server's program.
	Versitygw string
	Buckets   []string
}

// Up brings a cluster up and returns when its nodes are Ready and its DNS and S3 answer. Leftovers of the same cluster
// are removed first. When it fails, the processes are stopped and the logs stay.
func Up(cluster layout.Cluster, options UpOptions, progress Progress) (State, error) {
	if options.Nodes < 1 || options.Nodes > layout.MaxNodes {
		return State{}, fmt.Errorf("--nodes is %d: from 1 to %d nodes are possible", options.Nodes, layout.MaxNodes)
	}
	tools, err := preflight.Check()
	if err != nil {
		return State{}, err
	}
	options.Images = append([]string{options.Pause}, options.Images...)
	if err := readable(options.Images); err != nil {
		return State{}, err
	}
	if err := errors.Join(Down(cluster), claim(cluster)); err != nil {
		return State{}, err
	}
	state, err := bringUp(cluster, options, tools, progress)
	if err != nil {
		return State{}, errors.Join(err, stopEverything(cluster))
	}
	return state, state.save(cluster)
}

func bringUp(cluster layout.Cluster, options UpOptions, tools preflight.Tools, progress Progress) (State, error) {
	self, err := Self()
	if err != nil {
		return State{}, err
	}
	state, err := startControl(cluster, self, options)
	if err != nil {
		return State{}, err
	}
	progress("control plane started")
	nodes := make(chan error, options.Nodes)
	for number := 1; number <= options.Nodes; number++ {
		go func() { nodes <- startNode(cluster, self, number, options.Nodes, tools, options.Images, progress) }()
	}
	if err = controlReady(cluster, self); err == nil {
		progress("API server, DNS and S3 answer")
	}
	for range options.Nodes {
		err = errors.Join(err, <-nodes)
	}
	if err != nil {
		return State{}, err
	}
	for number := 1; number <= options.Nodes; number++ {
		if err := waitNodeReady(cluster, number); err != nil {
			return State{}, err
		}
	}
	progress("%d node(s) Ready", options.Nodes)
	return state, nil
}

// startControl starts the control plane in a network and a pid namespace of its own, with two sockets of the host's
// loopback handed in: one for the API server, one for S3.
func startControl(cluster layout.Cluster, self string, options UpOptions) (State, error) {
	apiSocket, apiAddress, err := listenOnLoopback(0)
	if err != nil {
		return State{}, err
	}
	defer apiSocket.Close()
	s3Socket, s3Address, err := listenOnLoopback(0)
	if err != nil {
		return State{}, err
	}
	defer s3Socket.Close()
	state := State{
		ID: cluster.ID, Nodes: options.Nodes, Kubeconfig: cluster.Kubeconfig(), APIServer: "https://" + apiAddress,
		S3Endpoint: "http://" + s3Address, S3PodEndpoint: layout.S3PodEndpoint,
		S3AccessKey: layout.S3AccessKey, S3SecretKey: layout.S3SecretKey, S3Region: layout.S3Region,
	}
	inside := fmt.Sprintf("https://127.0.0.1:%d", layout.APIServerPort)
	fromNodes := fmt.Sprintf("https://%s:%d", layout.ControlAddress, layout.APIServerPort)
	if err := controlplane.WriteCredentials(cluster, controlplane.InCluster, state.APIServer, inside, fromNodes, options.Nodes); err != nil {
		return State{}, err
	}
	stack, err := controlStack(cluster, self, options)
	if err != nil {
		return State{}, err
	}
	m := machine{cluster, "control"}
	record, gun, err := m.start(self, stack, syscall.CLONE_NEWNET|syscall.CLONE_NEWPID, []*os.File{apiSocket, s3Socket}, "supervise")
	if err != nil {
		return State{}, err
	}
	return state, errors.Join(network.SetUpControl(record.PID), gun.Close())
}

func controlStack(cluster layout.Cluster, self string, options UpOptions) (supervisor.Stack, error) {
	endpoints := controlplane.InCluster
	s3, err := s3Unit(cluster, options.Versitygw, fmt.Sprintf("0.0.0.0:%d", layout.S3Port), options.Buckets)
	if err != nil {
		return supervisor.Stack{}, err
	}
	corefile := render.Render("Corefile", render.CoreDNS{
		Address: layout.ControlAddress, Kubeconfig: cluster.Path("kubeconfigs", "coredns"), ReadyPort: layout.DNSReadyPort,
	})
	if err := os.WriteFile(cluster.Path("Corefile"), []byte(corefile), 0o644); err != nil {
		return supervisor.Stack{}, err
	}
	stopped := cluster.Path("run", "control.stopped")
	// Without its Service and its permissions the name server starts by failing, and then waits long: see controlReady.
	if err := errors.Join(os.MkdirAll(stopped, 0o755), os.WriteFile(filepath.Join(stopped, dnsUnit), nil, 0o644)); err != nil {
		return supervisor.Stack{}, err
	}
	dns := supervisor.Unit{
		Name: dnsUnit, Args: []string{self, dnsUnit, cluster.Path("Corefile")}, Log: cluster.Log(dnsUnit),
		After: []string{endpoints.ReadyURL()},
	}
	units := append(controlplane.ServerUnits(cluster, self, endpoints),
		controlplane.ControllerUnit(cluster, self, endpoints, ""), controlplane.SchedulerUnit(cluster, self, endpoints), dns, s3)
	return supervisor.Stack{
		StoppedDir: stopped, Units: units,
		Forwards: []supervisor.Forward{
			{FileDescriptor: 3, To: fmt.Sprintf("127.0.0.1:%d", layout.APIServerPort)},
			{FileDescriptor: 4, To: fmt.Sprintf("127.0.0.1:%d", layout.S3Port)},
		},
	}, nil
}

func controlReady(cluster layout.Cluster, self string) error {
	m := machine{cluster, "control"}
	if err := m.wait("the API server", 90*time.Second, apiServes(cluster)); err != nil {
		return err
	}
	if err := errors.Join(applyAddons(cluster, self), SetService(cluster, "control", dnsUnit, false)); err != nil {
		return err
	}
	if err := m.wait("the default service account", 60*time.Second, podsCanBeCreated(cluster)); err != nil {
		return err
	}
	return m.wait("the cluster's DNS and S3", 60*time.Second, func(ctx context.Context) error {
		return network.WaitInside(ctx, m.pid(), []string{
			fmt.Sprintf("http://127.0.0.1:%d/ready", layout.DNSReadyPort), fmt.Sprintf("tcp://127.0.0.1:%d", layout.S3Port),
		})
	})
}

func applyAddons(cluster layout.Cluster, self string) error {
	manifest := render.Render("addons.yaml", render.Addons{
		ControlAddress: layout.ControlAddress, DNSService: layout.DNSService, S3Port: layout.S3Port,
	})
	return Apply(cluster, self, manifest)
}

func waitNodeReady(cluster layout.Cluster, number int) error {
	m := machine{cluster, layout.NodeName(number)}
	ready := func(ctx context.Context) error {
		client, err := apiclient.New(cluster.Kubeconfig())
		if err != nil {
			return err
		}
		return client.WaitNode(ctx, m.name, true)
	}
	if err := m.wait("the node", 90*time.Second, ready); err != nil {
		return err
	}
	return m.wait("the enforcement of network policies", 90*time.Second, reachable("unix://"+node.PoliciesSocket(m.pid())))
}

// Down stops the cluster, whatever is left of it, and removes its files.
func Down(cluster layout.Cluster) error {
	return errors.Join(stopEverything(cluster), removeFiles(cluster))
}

// stopEverything ends nodes first, then the rest. What a cluster stored goes with it, so nothing is asked to end: a
// control plane without power is gone at once.
func stopEverything(cluster layout.Cluster) error {
	var failures error
	for number := 1; number <= layout.MaxNodes; number++ {
		failures = errors.Join(failures, (machine{cluster, layout.NodeName(number)}).stop(unix.SIGKILL))
	}
	failures = errors.Join(failures, (machine{cluster, "control"}).stop(unix.SIGKILL))
	for _, name := range []string{"api", "s3"} { // without a pid namespace, only the supervisor itself can stop its units
		failures = errors.Join(failures, (machine{cluster, name}).stop(unix.SIGTERM))
	}
	return errors.Join(failures, removeCgroups(cluster.CgroupRoot()))
}
