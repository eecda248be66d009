package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/statefulspark/e2e/cluster/internal/apiclient"
	"github.com/statefulspark/e2e/cluster/internal/cgroup"
	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/process"
)

// Status describes the cluster for a person. It fails when something that should run does not.
func Status(cluster layout.Cluster) (string, error) {
	state, err := LoadState(cluster)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "cluster     %s in %s\nAPI server  %s\nkubeconfig  %s\n", state.ID, cluster.Dir, state.APIServer, state.Kubeconfig)
	if state.S3Endpoint != "" {
		fmt.Fprintf(&text, "S3          %s (pods: %s)\n", state.S3Endpoint, state.S3PodEndpoint)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var readiness map[string]bool
	client, err := apiclient.New(cluster.Kubeconfig())
	if err == nil {
		readiness, err = client.NodeReadiness(ctx)
	}
	for number := 1; number <= state.Nodes; number++ {
		name := layout.NodeName(number)
		fmt.Fprintf(&text, "node %s     running=%t ready=%t\n", name, machine{cluster, name}.pid() != 0, readiness[name])
	}
	return text.String(), err
}

// Memory describes what each process of the cluster uses. PSS splits the pages that processes of one program share;
// RSS counts them in each.
func Memory(cluster layout.Cluster) string {
	var text strings.Builder
	total := 0
	for _, m := range machines(cluster) {
		record, running := m.find()
		if !running {
			continue
		}
		for _, child := range append(process.Children(record.PID), record) {
			pss := memoryKiB(child.PID, "smaps_rollup", "Pss:") / 1024
			total += pss
			fmt.Fprintf(&text, "%-8s %-26s RSS %5d MiB  PSS %5d MiB\n", m.name, title(child.PID),
				memoryKiB(child.PID, "status", "VmRSS:")/1024, pss)
		}
	}
	fmt.Fprintf(&text, "%-35s %15s PSS %5d MiB\n", "together", "", total)
	return text.String()
}

func machines(cluster layout.Cluster) []machine {
	found := []machine{{cluster, "control"}, {cluster, "api"}, {cluster, "s3"}}
	for number := 1; number <= layout.MaxNodes; number++ {
		found = append(found, machine{cluster, layout.NodeName(number)})
	}
	return found
}

func title(pid int) string {
	arguments := process.Arguments(pid)
	if len(arguments) == 0 {
		return "?"
	}
	if program := filepath.Base(arguments[0]); program != "cluster" || len(arguments) == 1 {
		return program
	}
	return arguments[1]
}

func memoryKiB(pid int, file, field string) int {
	body, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	for _, line := range strings.Split(string(body), "\n") {
		if rest, found := strings.CutPrefix(line, field); found {
			var amount int
			_, _ = fmt.Sscan(rest, &amount)
			return amount
		}
	}
	return 0
}

// CheckClean returns an error that names what a cluster that is down has left on the machine.
func CheckClean(cluster layout.Cluster) error {
	var left []string
	for _, m := range machines(cluster) {
		if record, running := m.find(); running {
			left = append(left, fmt.Sprintf("process %d (%s)", record.PID, m.name))
		}
	}
	for _, group := range cgroup.Existing(cluster.CgroupRoot()) {
		left = append(left, "control group "+group)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, cluster.Dir+"/") {
			left = append(left, "mount "+line)
		}
	}
	if isClaimed(cluster) {
		left = append(left, "files in "+cluster.Dir)
	}
	if len(left) > 0 {
		return fmt.Errorf("the cluster %s left something behind: %s", cluster.ID, strings.Join(left, "; "))
	}
	return nil
}
