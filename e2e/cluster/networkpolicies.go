package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"reflect"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/knftables"

	"github.com/statefulspark/e2e/cluster/internal/policy"
)

const (
	settle     = 50 * time.Millisecond // changes come in groups: a pod's address and its readiness, say
	retryDelay = time.Second
)

// enforcement says which node is looked after, and who asks the API server.
type enforcement struct {
	node, kubeconfig string
	// socket accepts connections as soon as the rules are in force.
	socket string
}

func newNetworkPoliciesCommand() *cobra.Command {
	options := enforcement{}
	command := &cobra.Command{
		Use: "network-policies", Short: "Enforce NetworkPolicies in this network namespace", Args: cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(command *cobra.Command, _ []string) error { return enforce(command.Context(), options) },
	}
	flags := command.Flags()
	flags.StringVar(&options.node, "node", "", "name of the node")
	flags.StringVar(&options.kubeconfig, "kubeconfig", "", "who asks the API server")
	flags.StringVar(&options.socket, "socket", "", "path of a socket that accepts connections once the rules are in force")
	return command
}

// enforce keeps the rules as the API server says they should be until the context ends.
func enforce(ctx context.Context, options enforcement) error {
	table, err := knftables.New(knftables.IPv4Family, policy.Table)
	if err != nil {
		return fmt.Errorf("cannot use nftables (apt-get install nftables): %w", err)
	}
	watched, err := watch(ctx, options.kubeconfig)
	if err != nil {
		return err
	}
	rules := &rules{node: options.node, table: table}
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if err := rules.follow(ctx, watched); err != nil {
			klog.ErrorS(err, "The rules stay as they were; trying again")
			retry = time.After(retryDelay)
		} else if err := rules.announce(ctx, options.socket); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-watched.changed:
			time.Sleep(settle)
		case <-retry:
		}
	}
	return nil
}

// rules are those of one node, in its network namespace.
type rules struct {
	node      string
	table     knftables.Interface
	inForce   []policy.Isolation
	written   bool
	announced bool
}

// follow writes the rules if they differ from those that are in force.
func (r *rules) follow(ctx context.Context, watched *watched) error {
	snapshot, err := watched.snapshot()
	if err != nil {
		return err
	}
	isolations, err := snapshot.Isolations(r.node)
	if err != nil {
		return err
	}
	if r.written && reflect.DeepEqual(isolations, r.inForce) {
		return nil
	}
	tx := r.table.NewTransaction()
	policy.Replace(tx, isolations)
	if err := r.table.Run(ctx, tx); err != nil {
		return fmt.Errorf("nft refused %d isolation(s): %w", len(isolations), err)
	}
	r.inForce, r.written = isolations, true
	klog.InfoS("Rules are in force", "isolations", len(isolations))
	return nil
}

// announce opens the socket, once, and takes connections until the context ends: whoever waits for the rules is answered.
func (r *rules) announce(ctx context.Context, path string) error {
	if r.announced {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the socket of a process before this one cannot be removed: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	r.announced = true
	go func() {
		<-ctx.Done()
		_ = listener.Close()
	}()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // closed
			}
			_ = connection.Close()
		}
	}()
	return nil
}

// watched is a copy of what the API server has; changed gets a value after each change.
type watched struct {
	factory informers.SharedInformerFactory
	changed chan struct{}
}

func watch(ctx context.Context, kubeconfig string) (*watched, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("%s is no kubeconfig: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &watched{informers.NewSharedInformerFactory(client, 0), make(chan struct{}, 1)}
	note := func() {
		select {
		case w.changed <- struct{}{}:
		default: // one is waiting
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() }, UpdateFunc: func(any, any) { note() }, DeleteFunc: func(any) { note() },
	}
	core, networking := w.factory.Core().V1(), w.factory.Networking().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.Pods().Informer(), core.Namespaces().Informer(), networking.NetworkPolicies().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	w.factory.Start(ctx.Done())
	w.factory.WaitForCacheSync(ctx.Done())
	return w, ctx.Err()
}

func (w *watched) snapshot() (policy.Snapshot, error) {
	core, networking := w.factory.Core().V1(), w.factory.Networking().V1()
	pods, podsErr := core.Pods().Lister().List(labels.Everything())
	namespaces, namespacesErr := core.Namespaces().Lister().List(labels.Everything())
	policies, policiesErr := networking.NetworkPolicies().Lister().List(labels.Everything())
	return policy.Ordered(policy.Snapshot{pods, namespaces, policies}), errors.Join(podsErr, namespacesErr, policiesErr)
}
