// Package policy enforces NetworkPolicies on one node: what the API server says becomes rules of the node's own network
// namespace.
//
// What may pass is computed from a snapshot, without I/O; the process that does it is beside the components. Each end of a connection is looked after
// by the pod's own node, so a connection between two nodes passes both. Only what is forwarded is judged: a node reaches
// its own pods, as probes do, and connections that stand are left alone. What is not allowed is dropped, not refused.
package policy

import (
	"cmp"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Snapshot is all that policies depend on.
type Snapshot struct {
	Pods       []*core.Pod
	Namespaces []*core.Namespace
	Policies   []*networking.NetworkPolicy
}

// hasOwnAddress tells whether an address means this pod and nothing else: not the node's, and not one given back.
func hasOwnAddress(pod *core.Pod) bool {
	ended := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !ended
}

// podsOf are the pods a peer names, seen from a policy's namespace. A peer that is a block of addresses names none.
func (s Snapshot) podsOf(peer networking.NetworkPolicyPeer, namespace string) ([]*core.Pod, error) {
	if peer.IPBlock != nil {
		return nil, nil
	}
	namespaces, err := s.namespacesOf(peer, namespace)
	if err != nil {
		return nil, err
	}
	selector := peer.PodSelector
	if selector == nil {
		selector = &meta.LabelSelector{} // a namespace alone means all its pods
	}
	matches, err := matcher(selector)
	if err != nil {
		return nil, err
	}
	var chosen []*core.Pod
	for _, pod := range s.Pods {
		if hasOwnAddress(pod) && slices.Contains(namespaces, pod.Namespace) && matches(pod.Labels) {
			chosen = append(chosen, pod)
		}
	}
	return chosen, nil
}

func (s Snapshot) namespacesOf(peer networking.NetworkPolicyPeer, own string) ([]string, error) {
	if peer.NamespaceSelector == nil {
		return []string{own}, nil
	}
	matches, err := matcher(peer.NamespaceSelector)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, namespace := range s.Namespaces {
		if matches(namespace.Labels) {
			names = append(names, namespace.Name)
		}
	}
	return names, nil
}

// policiesFor are those that isolate the pod in a direction.
func (s Snapshot) policiesFor(pod *core.Pod, direction Direction) ([]*networking.NetworkPolicy, error) {
	var chosen []*networking.NetworkPolicy
	for _, policy := range s.Policies {
		if policy.Namespace != pod.Namespace || !slices.Contains(policy.Spec.PolicyTypes, direction.kind()) {
			continue
		}
		matches, err := matcher(&policy.Spec.PodSelector)
		if err != nil {
			return nil, fmt.Errorf("the NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if matches(pod.Labels) {
			chosen = append(chosen, policy)
		}
	}
	return chosen, nil
}

func matcher(selector *meta.LabelSelector) (func(map[string]string) bool, error) {
	parsed, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("the selector %s cannot be read: %w", meta.FormatLabelSelector(selector), err)
	}
	return func(given map[string]string) bool { return parsed.Matches(labels.Set(given)) }, nil
}

// Ordered is the same snapshot in an order of its own, so that equal rules are written alike.
func Ordered(s Snapshot) Snapshot {
	return Snapshot{byName(s.Pods), byName(s.Namespaces), byName(s.Policies)}
}

func byName[Object meta.Object](objects []Object) []Object {
	return slices.SortedFunc(slices.Values(objects), func(one, other Object) int {
		return cmp.Or(cmp.Compare(one.GetNamespace(), other.GetNamespace()), cmp.Compare(one.GetName(), other.GetName()))
	})
}
