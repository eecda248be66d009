// Package render writes the configuration files of the cluster's components. It is pure: text in, text out.
package render

import (
	"bytes"
	"embed"
	"text/template"
)

//go:embed templates
var files embed.FS

var templates = template.Must(template.ParseFS(files, "templates/*"))

// Kubeconfig names one API server and one user.
type Kubeconfig struct {
	Server, AuthorityFile, Token string
}

// Kubelet is what differs from node to node.
type Kubelet struct {
	AuthorityFile, CgroupRoot, DNSService, ResolvConf, PluginDir string
}

// Containerd is the container runtime of a node.
type Containerd struct {
	Snapshotter, CNIBinDir, CNIConfDir string
}

// CNI is the pod network of a node.
type CNI struct {
	PodSubnet string
}

// CoreDNS is the cluster's name server.
type CoreDNS struct {
	Address, Kubeconfig string
	ReadyPort           int
}

// Addons are the objects every cluster has from the start: Services for DNS and S3 with the control plane's address
// behind them, and what the name server and the enforcer of NetworkPolicies may read.
type Addons struct {
	ControlAddress, DNSService string
	S3Port                     int
}

// Render renders the template of the given file name.
func Render(name string, values any) string {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, values); err != nil {
		panic(err) // the templates and their types are constants; a test renders each
	}
	return text.String()
}
