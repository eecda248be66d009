package render

import (
	"strings"
	"testing"
)

func TestEveryTemplateRendersWithItsOwnType(t *testing.T) {
	for name, values := range map[string]any{
		"kubeconfig.yaml": Kubeconfig{Server: "MARK"},
		"kubelet.yaml":    Kubelet{CgroupRoot: "MARK"},
		"containerd.toml": Containerd{Snapshotter: "MARK"},
		"cni.conflist":    CNI{PodSubnet: "MARK"},
		"Corefile":        CoreDNS{Address: "MARK"},
		"addons.yaml":     Addons{ControlAddress: "MARK"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(Render(name, values), "MARK") {
				t.Fatal("the value is not in the file")
			}
		})
	}
	entries, _ := files.ReadDir("templates")
	if len(entries) != 6 {
		t.Fatalf("%d templates: name the new one above", len(entries))
	}
}

func TestTheKubeletUsesTheNodesOwnControlGroup(t *testing.T) {
	text := Render("kubelet.yaml", Kubelet{CgroupRoot: "e2e-cluster-x/n1"})
	if !strings.Contains(text, `cgroupRoot: "/e2e-cluster-x/n1"`) {
		t.Fatal(text)
	}
}
