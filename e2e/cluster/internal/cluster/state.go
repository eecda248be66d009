package cluster

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/statefulspark/e2e/cluster/internal/layout"
)

// State is what a cluster that is up says about itself in cluster.json.
type State struct {
	ID string `json:"id"`
	// Nodes is how many nodes the cluster was started with, whether they live or not.
	Nodes         int    `json:"nodes"`
	Kubeconfig    string `json:"kubeconfig"`
	APIServer     string `json:"apiServer"`
	S3Endpoint    string `json:"s3Endpoint"`
	S3PodEndpoint string `json:"s3PodEndpoint"`
	S3AccessKey   string `json:"s3AccessKey"`
	S3SecretKey   string `json:"s3SecretKey"`
	S3Region      string `json:"s3Region"`
}

func statePath(cluster layout.Cluster) string { return cluster.Path("cluster.json") }

func (s State) save(cluster layout.Cluster) error {
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(statePath(cluster), append(body, '\n'), 0o600)
}

// LoadState reads the state of a cluster that is up.
func LoadState(cluster layout.Cluster) (State, error) {
	var state State
	body, err := os.ReadFile(statePath(cluster))
	if os.IsNotExist(err) {
		return state, fmt.Errorf("no cluster is up in %s: run `cluster up --dir %s`", cluster.Dir, cluster.Dir)
	}
	if err == nil {
		err = json.Unmarshal(body, &state)
	}
	if err != nil {
		return state, fmt.Errorf("cannot read %s: %w", statePath(cluster), err)
	}
	return state, nil
}

// Environment are the shell lines that point a person's tools at the cluster.
func (s State) Environment() string {
	return fmt.Sprintf("export KUBECONFIG=%s\nexport S3_ENDPOINT=%s\nexport S3_POD_ENDPOINT=%s\n"+
		"export AWS_ACCESS_KEY_ID=%s\nexport AWS_SECRET_ACCESS_KEY=%s\nexport AWS_REGION=%s\n",
		s.Kubeconfig, s.S3Endpoint, s.S3PodEndpoint, s.S3AccessKey, s.S3SecretKey, s.S3Region)
}
