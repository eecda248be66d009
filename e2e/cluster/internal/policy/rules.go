package policy

import (
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Direction is who opens the connection: somebody else, or the pod.
type Direction string

// The directions, as their chains are called.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

func (d Direction) kind() networking.PolicyType {
	if d == Ingress {
		return networking.PolicyTypeIngress
	}
	return networking.PolicyTypeEgress
}

// pod and peer are where a packet that opens a connection has the two addresses.
func (d Direction) pod() string {
	if d == Ingress {
		return "ip daddr"
	}
	return "ip saddr"
}

func (d Direction) peer() string {
	if d == Ingress {
		return "ip saddr"
	}
	return "ip daddr"
}

// Isolation is one direction of a pod that a policy selects. What meets none of the conditions, which are nft's, is dropped.
type Isolation struct {
	Address   string
	Direction Direction
	Allowed   []string
}

// Chain is the name of its chain.
func (i Isolation) Chain() string { return fmt.Sprintf("%s-%s", i.Direction, i.Address) }

// Isolations are all that a node has to enforce: those of its own pods.
func (s Snapshot) Isolations(node string) ([]Isolation, error) {
	var all []Isolation
	for _, pod := range s.Pods {
		if pod.Spec.NodeName != node || !hasOwnAddress(pod) {
			continue
		}
		for _, direction := range []Direction{Ingress, Egress} {
			policies, err := s.policiesFor(pod, direction)
			if err != nil {
				return nil, err
			}
			if len(policies) == 0 {
				continue
			}
			allowed, err := s.allowed(pod, direction, policies)
			if err != nil {
				return nil, err
			}
			all = append(all, Isolation{Address: pod.Status.PodIP, Direction: direction, Allowed: allowed})
		}
	}
	return all, nil
}

// rule is a rule of either direction.
type rule struct {
	peers []networking.NetworkPolicyPeer
	ports []networking.NetworkPolicyPort
}

func rulesOf(policy *networking.NetworkPolicy, direction Direction) []rule {
	var rules []rule
	if direction == Ingress {
		for _, given := range policy.Spec.Ingress {
			rules = append(rules, rule{given.From, given.Ports})
		}
		return rules
	}
	for _, given := range policy.Spec.Egress {
		rules = append(rules, rule{given.To, given.Ports})
	}
	return rules
}

func (s Snapshot) allowed(pod *core.Pod, direction Direction, policies []*networking.NetworkPolicy) ([]string, error) {
	conditions := []string{direction.peer() + " " + pod.Status.PodIP} // a pod always reaches itself, through a Service too
	for _, policy := range policies {
		for _, given := range rulesOf(policy, direction) {
			ends, err := s.ends(given.peers, direction, policy.Namespace)
			if err != nil {
				return nil, fmt.Errorf("the NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
			}
			for _, end := range ends {
				conditions = append(conditions, end.conditions(given.ports, direction, pod)...)
			}
		}
	}
	return conditions, nil
}

// end is the other end of a connection: a condition on its address, and the pods that meet it.
type end struct {
	condition string
	pods      []*core.Pod
}

func (s Snapshot) ends(peers []networking.NetworkPolicyPeer, direction Direction, namespace string) ([]end, error) {
	if len(peers) == 0 {
		return []end{{pods: s.Pods}}, nil // everybody
	}
	var ends []end
	for _, peer := range peers {
		if peer.IPBlock != nil {
			ends = append(ends, end{condition: block(peer.IPBlock, direction)})
			continue
		}
		pods, err := s.podsOf(peer, namespace)
		if err != nil {
			return nil, err
		}
		if len(pods) > 0 {
			ends = append(ends, end{oneOf(direction.peer(), addresses(pods)), pods})
		}
	}
	return ends, nil
}

// conditions are what a connection between the pod and this end has to meet, one of them. A port's name is that of a
// container of the pod that is connected to.
func (e end) conditions(ports []networking.NetworkPolicyPort, direction Direction, pod *core.Pod) []string {
	if len(ports) == 0 {
		return []string{join(e.condition)}
	}
	var conditions []string
	for _, port := range ports {
		switch {
		case port.Port == nil || port.Port.Type == intstr.Int:
			conditions = append(conditions, join(e.condition, numbered(port)))
		case direction == Ingress:
			for _, number := range named(pod, port) {
				conditions = append(conditions, join(e.condition, number))
			}
		default:
			for _, target := range e.pods {
				for _, number := range named(target, port) {
					conditions = append(conditions, join(direction.peer()+" "+target.Status.PodIP, number))
				}
			}
		}
	}
	return conditions
}

func numbered(port networking.NetworkPolicyPort) string {
	protocol := protocolOf(port)
	switch {
	case port.Port == nil:
		return "meta l4proto " + protocol
	case port.EndPort != nil:
		return fmt.Sprintf("%s dport %d-%d", protocol, port.Port.IntVal, *port.EndPort)
	default:
		return fmt.Sprintf("%s dport %d", protocol, port.Port.IntVal)
	}
}

func named(target *core.Pod, port networking.NetworkPolicyPort) []string {
	var numbers []string
	if !hasOwnAddress(target) {
		return nil
	}
	for _, container := range target.Spec.Containers {
		for _, candidate := range container.Ports {
			if candidate.Name == port.Port.StrVal && strings.ToLower(string(candidate.Protocol)) == protocolOf(port) {
				numbers = append(numbers, fmt.Sprintf("%s dport %d", protocolOf(port), candidate.ContainerPort))
			}
		}
	}
	return numbers
}

func protocolOf(port networking.NetworkPolicyPort) string {
	if port.Protocol == nil {
		return "tcp"
	}
	return strings.ToLower(string(*port.Protocol))
}

func block(given *networking.IPBlock, direction Direction) string {
	condition := direction.peer() + " " + given.CIDR
	if len(given.Except) > 0 {
		condition += " " + oneOf(direction.peer()+" !=", given.Except)
	}
	return condition
}

func addresses(pods []*core.Pod) []string {
	var all []string
	for _, pod := range pods {
		all = append(all, pod.Status.PodIP)
	}
	return all
}

func oneOf(what string, values []string) string {
	return fmt.Sprintf("%s { %s }", what, strings.Join(values, ", "))
}

func join(conditions ...string) string {
	return strings.TrimSpace(strings.Join(conditions, " "))
}
