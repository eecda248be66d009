package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/statefulspark/e2e/cluster/internal/layout"
)

// Kubectl runs this program's kubectl against the cluster and returns what it printed.
func Kubectl(cluster layout.Cluster, self, input string, args ...string) (string, error) {
	command := exec.Command(self, append([]string{"kubectl"}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return string(output), nil
}

// Apply applies a manifest.
func Apply(cluster layout.Cluster, self, manifest string) error {
	_, err := Kubectl(cluster, self, manifest, "apply", "-f", "-")
	return err
}
