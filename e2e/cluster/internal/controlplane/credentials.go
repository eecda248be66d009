package controlplane

import (
	"errors"
	"os"

	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/pki"
	"github.com/statefulspark/e2e/cluster/internal/render"
)

// account is somebody with a kubeconfig: the file's name, the user and the user's group.
type account struct {
	file, user, group, server string
}

// WriteCredentials makes the certificates and a kubeconfig for everybody: the administrator's names the address the
// host uses, those of the nodes and the control plane the one inside the cluster.
func WriteCredentials(cluster layout.Cluster, endpoints Endpoints, hostURL, controlURL, nodeURL string, nodes int) error {
	dir := cluster.Path("pki")
	authority, err := pki.NewAuthority(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(
		authority.Server("kube-apiserver", Hosts(endpoints)),
		authority.Client("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
		authority.SigningKey("service-accounts"),
		os.MkdirAll(cluster.Path("kubeconfigs"), 0o755),
	); err != nil {
		return err
	}
	accounts := []account{
		{"../kubeconfig", "admin", "system:masters", hostURL},
		{"kube-controller-manager", "system:kube-controller-manager", "", controlURL},
		{"kube-scheduler", "system:kube-scheduler", "", controlURL},
		{"coredns", "e2e:coredns", "", controlURL},
		{"kube-proxy", "system:kube-proxy", "", nodeURL},
		{"network-policies", "e2e:network-policies", "", nodeURL},
	}
	for number := 1; number <= nodes; number++ {
		name := layout.NodeName(number)
		accounts = append(accounts, account{name, "system:node:" + name, "system:nodes", nodeURL})
	}
	return writeAccounts(cluster, accounts)
}

func writeAccounts(cluster layout.Cluster, accounts []account) error {
	var users []pki.User
	for _, account := range accounts {
		user, err := pki.NewUser(account.user, account.group)
		if err != nil {
			return err
		}
		users = append(users, user)
		text := render.Render("kubeconfig.yaml", render.Kubeconfig{
			Server: account.server, AuthorityFile: cluster.Path("pki", "ca.crt"), Token: user.Token,
		})
		if err := os.WriteFile(cluster.Path("kubeconfigs", account.file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(cluster.Path("pki", "tokens.csv"), []byte(pki.TokenFile(users)), 0o600)
}
