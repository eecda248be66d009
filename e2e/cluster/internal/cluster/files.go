package cluster

import (
	"fmt"
	"os"

	"github.com/statefulspark/e2e/cluster/internal/layout"
)

// marker says that a directory is a cluster's, so that no other directory is ever emptied.
const marker = ".e2e-cluster"

// claim makes the cluster's directory. It refuses one that holds somebody else's files.
func claim(cluster layout.Cluster) error {
	entries, err := os.ReadDir(cluster.Dir)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot use the cluster directory: %w", err)
	}
	if len(entries) > 0 && !isClaimed(cluster) {
		return fmt.Errorf("%s holds files that are not a cluster's: name an empty or a new directory with --dir", cluster.Dir)
	}
	if err := os.MkdirAll(cluster.Dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the cluster directory: %w", err)
	}
	return os.WriteFile(cluster.Path(marker), nil, 0o644)
}

func isClaimed(cluster layout.Cluster) bool {
	_, err := os.Stat(cluster.Path(marker))
	return err == nil
}

// removeFiles removes what a cluster keeps in its directory, and the directory if nothing else is in it.
func removeFiles(cluster layout.Cluster) error {
	if !isClaimed(cluster) {
		return nil
	}
	for _, name := range []string{
		"Corefile", "cluster.json", "etcd", "kubeconfig", "kubeconfigs", "log", "nodes", "pki", "run", "s3", marker,
	} {
		if err := os.RemoveAll(cluster.Path(name)); err != nil {
			return fmt.Errorf("cannot clean %s: %w", cluster.Dir, err)
		}
	}
	_ = os.Remove(cluster.Dir)
	return nil
}
