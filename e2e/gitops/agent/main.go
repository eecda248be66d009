// Command agent keeps a namespace as a directory of a git repository says, by Argo CD's own engine, and tells the health of
// what it applied by the Lua that this repository gives to Argo CD.
//
// It writes one JSON line for each sync and for each change of health:
//
//	{"revision": "4f1c…", "synced": [{"resource": "StatefulSparkJob/flights", "status": "Synced", "message": "…"}]}
//	{"revision": "4f1c…", "resource": "StatefulSparkJob/flights", "health": "Degraded", "message": "…"}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
)

// trackingLabel is the label by which Argo CD knows what belongs to an application. Operators that copy it to what they make lose
// that to a prune, unless it has an owner.
const trackingLabel = "app.kubernetes.io/instance"

// fieldManager is Argo CD's name in managedFields.
const fieldManager = "argocd-controller"

type options struct {
	repository, directory, namespace, application, scripts string
	interval                                               time.Duration
}

func main() {
	var given options
	flag.StringVar(&given.repository, "repository", "", "folder of a git repository; its HEAD is applied")
	flag.StringVar(&given.directory, "directory", ".", "folder of the manifests in the repository")
	flag.StringVar(&given.namespace, "namespace", "", "namespace that is kept so")
	flag.StringVar(&given.application, "application", "", "name in the label "+trackingLabel)
	flag.StringVar(&given.scripts, "health", "", "folder of <Kind>.lua")
	flag.DurationVar(&given.interval, "interval", time.Second, "time between two looks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, given); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, given options) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return fmt.Errorf("KUBECONFIG leads to no cluster: %w", err)
	}
	checks, err := loadChecks(given.scripts)
	if err != nil {
		return err
	}
	cluster := cache.NewClusterCache(config,
		cache.SetNamespaces([]string{given.namespace}),
		cache.SetPopulateResourceInfoHandler(func(resource *unstructured.Unstructured, _ bool) (any, bool) {
			belongs := resource.GetLabels()[trackingLabel] == given.application
			return belongs, belongs // what belongs is kept whole, for the comparison and for its health
		}))
	loop := &agent{given: given, cluster: cluster, engine: engine.NewEngine(config, cluster), checks: checks, out: json.NewEncoder(os.Stdout)}
	stopCache, err := loop.engine.Run()
	if err != nil {
		return err
	}
	defer stopCache()
	return loop.run(ctx)
}

type agent struct {
	given   options
	cluster cache.ClusterCache
	engine  engine.GitOpsEngine
	checks  checks
	out     *json.Encoder

	applied string
	told    map[kube.ResourceKey]health.HealthStatus
}

func (a *agent) run(ctx context.Context) error {
	a.told = map[kube.ResourceKey]health.HealthStatus{}
	for {
		if err := a.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(a.given.interval):
		}
	}
}

func (a *agent) look(ctx context.Context) error {
	revision, targets, err := manifests(ctx, a.given.repository, a.given.directory)
	if err != nil {
		return err
	}
	if revision != a.applied {
		if err := a.sync(ctx, revision, targets); err != nil {
			return err
		}
		a.applied = revision
	}
	return a.tellHealth()
}

func (a *agent) sync(ctx context.Context, revision string, targets []*unstructured.Unstructured) error {
	for _, target := range targets {
		if target.GetNamespace() == "" {
			target.SetNamespace(a.given.namespace) // as Argo CD does: a manifest without one goes to the application's
		}
		labels := target.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[trackingLabel] = a.given.application
		target.SetLabels(labels)
	}
	results, err := a.engine.Sync(ctx, targets, belongs, revision, a.given.namespace,
		sync.WithPrune(true), sync.WithServerSideApply(true), sync.WithServerSideApplyManager(fieldManager),
		sync.WithHealthOverride(a.checks))
	if err != nil {
		return fmt.Errorf("revision %s: %w", revision, err)
	}
	synced := []map[string]string{}
	for _, result := range results {
		synced = append(synced, map[string]string{
			"resource": result.ResourceKey.Kind + "/" + result.ResourceKey.Name,
			"status":   string(result.Status),
			"message":  result.Message,
		})
	}
	return a.out.Encode(map[string]any{"revision": revision, "synced": synced})
}

func belongs(resource *cache.Resource) bool {
	isOwn, _ := resource.Info.(bool)
	return isOwn
}

func (a *agent) tellHealth() error {
	for key, resource := range a.cluster.FindResources(a.given.namespace, cache.TopLevelResource, belongs) {
		if resource.Resource == nil {
			continue
		}
		seen, err := health.GetResourceHealth(resource.Resource, a.checks)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if seen == nil || *seen == a.told[key] {
			continue
		}
		a.told[key] = *seen
		line := map[string]string{
			"revision": a.applied, "resource": filepath.Join(key.Kind, key.Name), "health": string(seen.Status), "message": seen.Message,
		}
		if err := a.out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
