// Package layout names what a cluster consists of: its identity, its addresses and the files below its directory.
//
// The addresses are constants. Every cluster has network namespaces of its own that are connected to nothing but each
// other, so two clusters use the same ones without meeting. Only control groups live in a space that is shared with
// the host, and they are named after the cluster's id.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Addresses inside the cluster's own network namespaces.
const (
	ControlAddress    = "10.201.0.1"
	ControlPrefix     = 24
	ServiceRange      = "10.203.0.0/16"
	KubernetesService = "10.203.0.1"
	DNSService        = "10.203.0.10"
	PodRange          = "10.202.0.0/16"
	APIServerPort     = 6443
	S3Port            = 7070
	DNSReadyPort      = 8181
	MaxNodes          = 9
)

// S3PodEndpoint is where pods reach the S3 server: a Service whose endpoint is the control namespace's address.
var S3PodEndpoint = fmt.Sprintf("http://s3.kube-system.svc.cluster.local:%d", S3Port)

// Credentials of the S3 server. They guard nothing: the server listens on loopback and inside the cluster only.
const (
	S3AccessKey = "test"
	S3SecretKey = "test-secret"
	S3Region    = "us-east-1"
)

// Cluster is one cluster's identity: where its files are and what its control groups are called.
type Cluster struct {
	Dir string
	ID  string
}

var unwantedInID = regexp.MustCompile(`[^a-z0-9]+`)

// New returns the cluster kept in dir. An empty id is derived from the absolute path of dir, so the same directory
// always means the same cluster.
func New(dir, id string) (Cluster, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Cluster{}, fmt.Errorf("cannot resolve the cluster directory %q: %w", dir, err)
	}
	if id == "" {
		sum := sha256.Sum256([]byte(absolute))
		name := unwantedInID.ReplaceAllString(strings.ToLower(filepath.Base(absolute)), "-")
		id = strings.Trim(name, "-") + "-" + hex.EncodeToString(sum[:3])
	}
	if id != strings.Trim(unwantedInID.ReplaceAllString(id, "-"), "-") {
		return Cluster{}, fmt.Errorf("the cluster id %q may hold lower-case letters, digits and single dashes only", id)
	}
	return Cluster{Dir: absolute, ID: id}, nil
}

// Path joins names below the cluster's directory.
func (c Cluster) Path(names ...string) string {
	return filepath.Join(append([]string{c.Dir}, names...)...)
}

// Log is the log file of one process.
func (c Cluster) Log(name string) string { return c.Path("log", name+".log") }

// Kubeconfig is the administrator's kubeconfig.
func (c Cluster) Kubeconfig() string { return c.Path("kubeconfig") }

// NodeDir holds everything a node keeps on disk; it survives the node's death as a machine's disk does.
func (c Cluster) NodeDir(number int) string { return c.Path("nodes", NodeName(number)) }

// CgroupRoot is the control group of the whole cluster, relative to each controller's root.
func (c Cluster) CgroupRoot() string { return "e2e-cluster-" + c.ID }

// NodeCgroup is the control group below which a node's kubelet creates those of its pods.
func (c Cluster) NodeCgroup(number int) string { return c.CgroupRoot() + "/" + NodeName(number) }

// NodeName is the Kubernetes name of a node, counted from 1.
func NodeName(number int) string { return fmt.Sprintf("n%d", number) }

// NodeAddress is a node's address on the cluster's bridge.
func NodeAddress(number int) string { return fmt.Sprintf("10.201.0.%d", 10+number) }

// PodSubnet is the range a node gives its pods addresses from.
func PodSubnet(number int) string { return fmt.Sprintf("10.202.%d.0/24", number) }

// NodeLink is the control namespace's end of a node's cable.
func NodeLink(number int) string { return "to-" + NodeName(number) }
