package main

import (
	"context"
	"fmt"
	"os"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"network-policies":        newNetworkPoliciesCommand,
}

func isComponent(name string) bool {
	return commands[name] != nil || name == "etcd" || name == "coredns"
}

// runComponent never returns. The command line is the component's own, with its name first.
func runComponent(name string) {
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		os.Exit(0)
	case "coredns":
		fmt.Fprintln(os.Stderr, serveDNS(os.Args[1]))
		os.Exit(1)
	default:
		os.Exit(cli.Run(commands[name]()))
	}
}

// serveDNS starts the server below CoreDNS's own main package, which would add its flags to every component's.
func serveDNS(corefile string) error {
	body, err := os.ReadFile(corefile)
	if err != nil {
		return err
	}
	caddy.TrapSignals()
	server, err := caddy.Start(caddy.CaddyfileInput{Contents: body, Filepath: corefile, ServerTypeName: "dns"})
	if err != nil {
		return err
	}
	server.Wait()
	return fmt.Errorf("the DNS server ended")
}
