package policy

import (
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/knftables"
	"sigs.k8s.io/yaml"
)

const (
	own   = "10.202.1.2" // of the pod that is judged
	other = "10.202.2.3" // of another one in its namespace
	third = "10.202.2.4" // of one with the same label in another namespace
)

func aPod(namespace, name, node, address string) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: core.PodSpec{NodeName: node, Containers: []core.Container{{Ports: []core.ContainerPort{
			{Name: "web", ContainerPort: 8000, Protocol: core.ProtocolTCP},
			{Name: "web", ContainerPort: 8001, Protocol: core.ProtocolUDP},
		}}}},
		Status: core.PodStatus{Phase: core.PodRunning, PodIP: address},
	}
}

func aNamespace(name string) *core.Namespace {
	labels := map[string]string{"kubernetes.io/metadata.name": name}
	return &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}}
}

func aPolicy(t *testing.T, spec string) *networking.NetworkPolicy {
	t.Helper()
	policy := &networking.NetworkPolicy{ObjectMeta: meta.ObjectMeta{Namespace: "here", Name: "rules"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
		t.Fatal(err)
	}
	return policy
}

func aSnapshot(policies ...*networking.NetworkPolicy) Snapshot {
	return Snapshot{
		Pods: []*core.Pod{
			aPod("here", "one", "n1", own), aPod("here", "other", "n2", other), aPod("there", "other", "n2", third),
		},
		Namespaces: []*core.Namespace{aNamespace("here"), aNamespace("there")},
		Policies:   policies,
	}
}

func isolationsOf(t *testing.T, snapshot Snapshot) []Isolation {
	t.Helper()
	isolations, err := snapshot.Isolations("n1")
	if err != nil {
		t.Fatal(err)
	}
	return isolations
}

const itself = "ip saddr " + own

func TestWhatAnIngressPolicyLetsIn(t *testing.T) {
	for sentence, example := range map[string]struct {
		ingress string
		want    []string
	}{
		"no rule lets in nobody":                      {`[]`, nil},
		"an empty rule lets in everybody":             {`[{}]`, []string{""}},
		"a pod selector means the policy's namespace": {`[{from: [{podSelector: {matchLabels: {app: other}}}]}]`, []string{"ip saddr { " + other + " }"}},
		"a namespace selector means all its pods": {
			`[{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: here}}}]}]`,
			[]string{"ip saddr { " + own + ", " + other + " }"},
		},
		"both selectors have to match": {
			`[{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: there}}, podSelector: {matchLabels: {app: other}}}]}]`,
			[]string{"ip saddr { " + third + " }"},
		},
		"peers that are there no more let in nobody": {`[{from: [{podSelector: {matchLabels: {app: gone}}}]}]`, nil},
		"a block has exceptions": {
			`[{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.0/16]}}]}]`,
			[]string{"ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16, 10.2.0.0/16 }"},
		},
		"a port is TCP unless it says otherwise": {`[{ports: [{port: 80}]}]`, []string{"tcp dport 80"}},
		"a protocol may stand alone":             {`[{ports: [{protocol: UDP}]}]`, []string{"meta l4proto udp"}},
		"ports may be a range":                   {`[{ports: [{port: 80, endPort: 90}]}]`, []string{"tcp dport 80-90"}},
		"a port's name is one of the pod":        {`[{ports: [{port: web}]}]`, []string{"tcp dport 8000"}},
		"a name of no port lets in nobody":       {`[{ports: [{port: away}]}]`, nil},
		"every peer may use every port": {
			`[{from: [{podSelector: {matchLabels: {app: other}}}, {ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}, {port: 81}]}]`,
			[]string{
				"ip saddr { " + other + " } tcp dport 80", "ip saddr { " + other + " } tcp dport 81",
				"ip saddr 10.0.0.0/8 tcp dport 80", "ip saddr 10.0.0.0/8 tcp dport 81",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := "{podSelector: {matchLabels: {app: one}}, policyTypes: [Ingress], ingress: " + example.ingress + "}"
			isolations := isolationsOf(t, aSnapshot(aPolicy(t, spec)))
			if len(isolations) != 1 || isolations[0].Chain() != "ingress-"+own {
				t.Fatalf("got %+v", isolations)
			}
			if want := append([]string{itself}, example.want...); !slices.Equal(isolations[0].Allowed, want) {
				t.Fatalf("want %q, got %q", want, isolations[0].Allowed)
			}
		})
	}
}

func TestAPortsNameIsThatOfThePodThatIsConnectedTo(t *testing.T) {
	policy := aPolicy(t, `{podSelector: {matchLabels: {app: one}}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}], ports: [{port: web}]}]}`)
	isolations := isolationsOf(t, aSnapshot(policy))
	want := []string{"ip daddr " + own, "ip daddr " + own + " tcp dport 8000", "ip daddr " + other + " tcp dport 8000"}
	if len(isolations) != 1 || isolations[0].Direction != Egress || !slices.Equal(isolations[0].Allowed, want) {
		t.Fatalf("want %q, got %+v", want, isolations)
	}
}

func TestPoliciesOfOnePodAddUp(t *testing.T) {
	spec := `{podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: PORT}]}]}`
	one, two := strings.Replace(spec, "PORT", "1", 1), strings.Replace(spec, "PORT", "2", 1)
	isolations := isolationsOf(t, aSnapshot(aPolicy(t, one), aPolicy(t, two)))
	if want := []string{itself, "tcp dport 1", "tcp dport 2"}; len(isolations) != 1 || !slices.Equal(isolations[0].Allowed, want) {
		t.Fatalf("want %q, got %+v", want, isolations)
	}
}

func TestPodsThatAreNotIsolatedHere(t *testing.T) {
	everybody := aPolicy(t, `{podSelector: {}, policyTypes: [Ingress]}`)
	for sentence, change := range map[string]func(*core.Pod){
		"on another node":         func(pod *core.Pod) { pod.Spec.NodeName = "n2" },
		"in the node's network":   func(pod *core.Pod) { pod.Spec.HostNetwork = true },
		"without an address yet":  func(pod *core.Pod) { pod.Status.PodIP = "" },
		"ended, its address free": func(pod *core.Pod) { pod.Status.Phase = core.PodSucceeded },
		"in another namespace":    func(pod *core.Pod) { pod.Namespace = "there" },
	} {
		t.Run(sentence, func(t *testing.T) {
			snapshot := aSnapshot(everybody)
			change(snapshot.Pods[0])
			if isolations := isolationsOf(t, snapshot); len(isolations) != 0 {
				t.Fatalf("got %+v", isolations)
			}
		})
	}
}

func TestASelectorThatCannotBeReadIsNamedWithItsPolicy(t *testing.T) {
	policy := aPolicy(t, `{podSelector: {matchExpressions: [{key: app, operator: Like, values: [x]}]}, policyTypes: [Ingress]}`)
	_, err := aSnapshot(policy).Isolations("n1")
	if err == nil || !strings.Contains(err.Error(), "here/rules") {
		t.Fatalf("got %v", err)
	}
}

func TestRulesReplaceThoseBefore(t *testing.T) {
	table := knftables.NewFake(knftables.IPv4Family, Table)
	for _, isolations := range [][]Isolation{
		{{Address: other, Direction: Egress}},
		{{Address: own, Direction: Ingress, Allowed: []string{itself, ""}}},
	} {
		tx := table.NewTransaction()
		Replace(tx, isolations)
		if err := table.Run(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Join([]string{
		"add table ip network-policies",
		"add chain ip network-policies forward { type filter hook forward priority 0 ; }",
		"add chain ip network-policies ingress-10.202.1.2",
		"add rule ip network-policies forward ct state established,related accept",
		"add rule ip network-policies forward ip daddr 10.202.1.2 jump ingress-10.202.1.2",
		"add rule ip network-policies ingress-10.202.1.2 ip saddr 10.202.1.2 return",
		"add rule ip network-policies ingress-10.202.1.2 return",
		"add rule ip network-policies ingress-10.202.1.2 drop",
	}, "\n")
	if got := strings.TrimSpace(table.Dump()); got != want {
		t.Fatalf("want\n%s\ngot\n%s", want, got)
	}
}

func TestASnapshotIsOrdered(t *testing.T) {
	one, two := aPod("a", "z", "n1", own), aPod("b", "a", "n1", other)
	if got := Ordered(Snapshot{Pods: []*core.Pod{two, one}}).Pods; !slices.Equal(got, []*core.Pod{one, two}) {
		t.Fatalf("got %v", got)
	}
}
