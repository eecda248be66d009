package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/apiclient"
	"github.com/statefulspark/e2e/cluster/internal/controlplane"
	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

// apiControllers are those a test of the API notices: namespaces end, service accounts appear, owners take along what
// they own.
const apiControllers = "namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller," +
	"garbage-collector-controller"

// APIUp starts an API server with its store and a few controllers on loopback. It needs no root.
func APIUp(cluster layout.Cluster) (State, error) {
	m := machine{cluster, "api"}
	if err := APIDown(cluster); err != nil {
		return State{}, err
	}
	if err := claim(cluster); err != nil {
		return State{}, err
	}
	self, err := Self()
	if err != nil {
		return State{}, err
	}
	held, ports, err := holdPorts(3)
	if err != nil {
		return State{}, err
	}
	defer closeAll(held)
	endpoints := controlplane.Endpoints{
		BindAddress: "127.0.0.1", AdvertiseAddress: "127.0.0.1",
		APIServerPort: ports[0], EtcdPort: ports[1], EtcdPeerPort: ports[2],
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	if err := controlplane.WriteCredentials(cluster, endpoints, server, server, server, 0); err != nil {
		return State{}, err
	}
	_, gun, err := m.start(self, apiStack(cluster, self, endpoints), 0, held, "supervise")
	if err != nil {
		return State{}, err
	}
	if err := gun.Close(); err != nil {
		return State{}, err
	}
	err = errors.Join(
		m.wait("the API server", 90*time.Second, apiServes(cluster)),
		m.wait("the default service account", 60*time.Second, podsCanBeCreated(cluster)),
	)
	if err != nil {
		return State{}, errors.Join(err, m.stop(unix.SIGTERM))
	}
	state := State{ID: cluster.ID, Kubeconfig: cluster.Kubeconfig(), APIServer: server}
	return state, state.save(cluster)
}

// APIDown stops the API server and removes its files.
func APIDown(cluster layout.Cluster) error {
	if err := (machine{cluster, "api"}).stop(unix.SIGTERM); err != nil {
		return err
	}
	return removeFiles(cluster)
}

func apiStack(cluster layout.Cluster, self string, endpoints controlplane.Endpoints) supervisor.Stack {
	units := controlplane.ServerUnits(cluster, self, endpoints)
	// The endpoint of the Service `kubernetes` may not be a loopback address, so there is none.
	units[1].Args = append(units[1].Args, "--endpoint-reconciler-type", "none")
	units = append(units, controlplane.ControllerUnit(cluster, self, endpoints, apiControllers))
	return supervisor.Stack{StoppedDir: cluster.Path("run", "api.stopped"), Units: units, Held: []int{3, 4, 5}}
}

// apiServes holds when the API server serves.
func apiServes(cluster layout.Cluster) func(context.Context) error {
	return waitPaths(cluster, "/readyz", "/api/v1/namespaces/kube-system")
}

// podsCanBeCreated holds when there is the service account a pod gets unless it names another.
func podsCanBeCreated(cluster layout.Cluster) func(context.Context) error {
	return waitPaths(cluster, "/api/v1/namespaces/default/serviceaccounts/default")
}

func waitPaths(cluster layout.Cluster, paths ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := apiclient.New(cluster.Kubeconfig())
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := client.Wait(ctx, path); err != nil {
				return err
			}
		}
		return nil
	}
}
