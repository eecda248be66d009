// Package cli is the command line: it reads flags, calls the package that does the work, and prints.
package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/statefulspark/e2e/cluster/internal/cluster"
	"github.com/statefulspark/e2e/cluster/internal/layout"
)

const overview = `A real Kubernetes 1.34 for a machine that has none, in one program.

It holds etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, CoreDNS and kubectl, and
uses the machine's containerd, runc, CNI plugins, iptables and nftables. NetworkPolicies are enforced. Each component can
be called by its name:

  cluster kubectl get pods --all-namespaces

The control plane and each node live in namespaces of their own. The machine's interfaces, routes, tables and kernel
settings stay as they are; the host reaches the API server and S3 on loopback.

  cluster up --nodes 2 --bucket statefulspark
  eval "$(cluster env)"
  cluster kubectl get nodes
  cluster down

Without root: an API server alone, or an S3 server alone, as often as wanted at the same time.

  export KUBECONFIG=$(cluster api up --dir build/api)
  cluster s3 up --dir build/s3 --port 0 --bucket statefulspark`

// identity are the flags that say which cluster is meant.
type identity struct{ dir, id string }

func (i identity) cluster() (layout.Cluster, error) { return layout.New(i.dir, i.id) }

// Run runs one command and returns the exit code.
func Run(arguments []string) int {
	root := newRoot()
	root.SetArgs(arguments)
	if err := root.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "cluster", Long: overview, SilenceUsage: true, SilenceErrors: true}
	which := &identity{}
	root.PersistentFlags().StringVar(&which.dir, "dir", "build/cluster", "directory that holds everything of the cluster")
	root.PersistentFlags().StringVar(&which.id, "id", "", "name of the cluster's control groups (default: from the directory)")
	root.AddCommand(
		upCommand(which), downCommand(which), statusCommand(which), envCommand(which), memoryCommand(which),
		checkCleanCommand(which), nodeCommand(which), serviceCommand(which), imagesCommand(which), apiCommand(which),
		s3Command(which), versionCommand(), superviseCommand(), nodeInitCommand(which), waitReachableCommand(),
	)
	return root
}

// timed prints progress with the seconds since the command began.
func timed() cluster.Progress {
	began := time.Now()
	return func(format string, values ...any) {
		fmt.Fprintf(os.Stderr, "[%5.1fs] %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, values...))
	}
}

// besideThisProgram is where another program of the same build lies.
func besideThisProgram(name string) string {
	self, err := cluster.Self()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}
