package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/apiclient"
	"github.com/statefulspark/e2e/cluster/internal/cgroup"
	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/network"
	"github.com/statefulspark/e2e/cluster/internal/node"
	"github.com/statefulspark/e2e/cluster/internal/preflight"
)

const nodeNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS

// startNode starts one node and loads the images. Its kubelet registers it when the API server answers.
func startNode(cluster layout.Cluster, self string, number, nodes int, tools preflight.Tools, images []string, progress Progress) error {
	m := machine{cluster, layout.NodeName(number)}
	control := machine{cluster, "control"}
	stack, err := node.Prepare(cluster, number, node.Tools{Self: self, Containerd: tools.Containerd, CNIBinDir: tools.CNIBinDir})
	if err != nil {
		return err
	}
	if err := cgroup.Create(cluster.NodeCgroup(number)); err != nil {
		return err
	}
	record, gun, err := m.start(self, stack, nodeNamespaces, nil, "node-init", "--dir", cluster.Dir, "--id", cluster.ID, fmt.Sprint(number))
	if err != nil {
		return err
	}
	err = network.AttachNode(control.pid(), record.PID, number, nodes)
	if err := errors.Join(err, gun.Close()); err != nil {
		return err
	}
	socket := node.ContainerdSocket(record.PID)
	if err := m.wait("containerd", 30*time.Second, reachable("unix://"+socket)); err != nil {
		return err
	}
	for _, image := range images {
		if err := loadImage(tools.Ctr, socket, image); err != nil {
			return fmt.Errorf("node %s: %w", m.name, err)
		}
	}
	progress("%s: container runtime up, %d image(s) loaded", m.name, len(images))
	return nil
}

// StartNode starts a node that was killed: with its disk, without anything it ran, as after a power failure.
func StartNode(cluster layout.Cluster, number int, progress Progress) error {
	state, err := stateOfNode(cluster, number)
	if err != nil {
		return err
	}
	if _, running := (machine{cluster, layout.NodeName(number)}).find(); running {
		return fmt.Errorf("node %s is running", layout.NodeName(number))
	}
	tools, err := preflight.Check()
	if err != nil {
		return err
	}
	self, err := Self()
	if err != nil {
		return err
	}
	if err := startNode(cluster, self, number, state.Nodes, tools, nil, progress); err != nil {
		return err
	}
	return waitNodeReady(cluster, number)
}

// KillNode cuts a node's power: all its processes die at once, and nobody tells the API server.
func KillNode(cluster layout.Cluster, number int) error {
	if _, err := stateOfNode(cluster, number); err != nil {
		return err
	}
	m := machine{cluster, layout.NodeName(number)}
	if _, running := m.find(); !running {
		return fmt.Errorf("node %s is not running", m.name)
	}
	return errors.Join(
		m.stop(unix.SIGKILL),
		network.DetachNode((machine{cluster, "control"}).pid(), number),
		removeCgroups(cluster.NodeCgroup(number)),
	)
}

// CutNode separates a node from everything else; its containers run on.
func CutNode(cluster layout.Cluster, number int) error {
	if _, err := stateOfNode(cluster, number); err != nil {
		return err
	}
	return network.CutNode((machine{cluster, "control"}).pid(), number)
}

// HealNode ends the separation.
func HealNode(cluster layout.Cluster, number int) error {
	if _, err := stateOfNode(cluster, number); err != nil {
		return err
	}
	return network.HealNode((machine{cluster, "control"}).pid(), number)
}

// WaitNode returns when the API server holds the node for ready, or for not ready.
func WaitNode(cluster layout.Cluster, number int, ready bool, limit time.Duration) error {
	client, err := apiclient.New(cluster.Kubeconfig())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return client.WaitNode(ctx, layout.NodeName(number), ready)
}

func stateOfNode(cluster layout.Cluster, number int) (State, error) {
	state, err := LoadState(cluster)
	if err != nil {
		return state, err
	}
	if number < 1 || number > state.Nodes {
		return state, fmt.Errorf("there is no node %d: the cluster has %d, counted from 1", number, state.Nodes)
	}
	return state, nil
}

// pid is the supervisor's process id, 0 when it is not running.
func (m machine) pid() int {
	record, _ := m.find()
	return record.PID
}

// SetService stops (kills) or starts one process of a machine: s3, kube-apiserver, kubelet ...
func SetService(cluster layout.Cluster, machineName, unit string, stopped bool) error {
	m := machine{cluster, machineName}
	record, running := m.find()
	if !running {
		return fmt.Errorf("%s is not running in %s", machineName, cluster.Dir)
	}
	directory, err := m.stoppedDir(unit)
	if err != nil {
		return err
	}
	mark := directory + "/" + unit
	if stopped {
		err = os.WriteFile(mark, nil, 0o644)
	} else {
		err = removeIfThere(mark)
	}
	return errors.Join(err, record.Signal(unix.SIGHUP))
}

func removeCgroups(group string) error { return cgroup.Remove(group, 10*time.Second) }
