//go:build smoke

// Package smoke proves the cluster program on the machine it runs on: what a pod can do, what losing things looks like,
// and that nothing is left when it is down. It needs root; `make cluster-smoke` runs it.
package smoke

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestACluster(t *testing.T) {
	before := observeHost(t)
	c := newCluster(t)
	c.run(t, "up", "--nodes", "2", "--load", builtFile("images/base.tar"), "--bucket", "smoke")
	c.apply(t, "pods.yaml")
	c.kubectl(t, "wait", "--for=condition=Ready", "pod/a", "pod/b", "pod/c", "--timeout=60s")

	t.Run("logs of a pod are read", func(t *testing.T) {
		expect(t, c.kubectl(t, "logs", "a"), "hello from a")
	})
	t.Run("a command in a pod gets its standard input", func(t *testing.T) {
		expect(t, c.kubectlWithInput(t, "there and back", "exec", "-i", "b", "--", "cat"), "there and back")
	})
	t.Run("a Service of a pod on the other node is reached by name", func(t *testing.T) {
		c.eventually(t, "served by a", inPod("b", `
			import urllib.request
			print(urllib.request.urlopen("http://web.default.svc.cluster.local/", timeout=5).read().decode())`)...)
	})
	t.Run("a headless Service names the pod's address", func(t *testing.T) {
		address := c.kubectl(t, "get", "pod", "a", "-o", "jsonpath={.status.podIP}")
		c.eventually(t, address, inPod("b", `import socket; print(socket.gethostbyname("headless"))`)...)
	})
	t.Run("a port of a pod is forwarded to the host's loopback", func(t *testing.T) { c.portForward(t) })
	t.Run("an object a pod writes to S3 is read by the host", func(t *testing.T) { c.s3RoundTrip(t) })
	t.Run("a stopped S3 server refuses pods until it is started", func(t *testing.T) { c.s3Outage(t) })
	t.Run("a network policy keeps pods out, on the same node and on another", func(t *testing.T) { c.policies(t) })
	t.Run("a node that is cut off is noticed and comes back", func(t *testing.T) {
		c.run(t, "node", "cut", "2")
		c.run(t, "node", "wait-lost", "2")
		c.run(t, "node", "heal", "2")
		c.run(t, "node", "wait-ready", "2")
	})
	t.Run("a killed node is noticed and starts again", func(t *testing.T) {
		c.run(t, "node", "kill", "2")
		c.run(t, "node", "wait-lost", "2")
		c.run(t, "node", "start", "2")
		c.kubectl(t, "delete", "pod", "b", "--ignore-not-found", "--force", "--grace-period=0")
		c.apply(t, "pods.yaml")
		c.kubectl(t, "wait", "--for=condition=Ready", "pod/b", "--timeout=60s")
	})
	c.run(t, "down")
	c.run(t, "check-clean")
	compareHosts(t, before, observeHost(t))
}

func TestAClusterThatDiedIsCleanedUpByTheNextOne(t *testing.T) {
	before := observeHost(t)
	c := newCluster(t)
	c.run(t, "up", "--nodes", "1")
	c.killSupervisors(t, "control")
	c.run(t, "up", "--nodes", "1")
	c.kubectl(t, "get", "node", "n1")
	c.killSupervisors(t, "n1")
	c.run(t, "down")
	c.run(t, "check-clean")
	compareHosts(t, before, observeHost(t))
}

func TestAPIServersAndS3ServersNeedNoRootAndLiveSideBySide(t *testing.T) {
	one, two := unprivileged(t), unprivileged(t)
	results := make(chan string, 2)
	for _, c := range []*clusterUnderTest{one, two} {
		go func() { results <- c.tryRun("api", "up") }()
	}
	for range 2 {
		expect(t, <-results, "kubeconfig")
	}
	one.kubectl(t, "create", "namespace", "only-here")
	one.kubectl(t, "delete", "namespace", "only-here", "--timeout=30s")
	if strings.Contains(two.kubectl(t, "get", "namespaces"), "only-here") {
		t.Fatal("the two API servers share their store")
	}
	storage := unprivileged(t)
	expect(t, storage.run(t, "s3", "up", "--bucket", "smoke"), `"endpoint":"http://127.0.0.1:`)
	storage.run(t, "s3", "down")
	one.run(t, "api", "down")
	two.run(t, "api", "down")
	for _, c := range []*clusterUnderTest{one, two, storage} {
		c.run(t, "check-clean")
	}
}

func (c *clusterUnderTest) portForward(t *testing.T) {
	command := exec.Command(c.program, "kubectl", "port-forward", "pod/a", ":8000")
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig())
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	line := make([]byte, 200)
	count, _ := output.Read(line)
	found := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(string(line[:count]))
	response, err := (&http.Client{Timeout: 10 * time.Second}).Get("http://" + found)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	expect(t, string(body), "served by a")
}

func (c *clusterUnderTest) s3RoundTrip(t *testing.T) {
	environment := c.run(t, "env")
	script, err := os.ReadFile(filepath.Join("testdata", "s3.py"))
	if err != nil {
		t.Fatal(err)
	}
	pod := exported(t, environment, "S3_POD_ENDPOINT")
	c.eventually(t, "from the pod", "exec", "b", "--", "python3", "-c", string(script), pod, "smoke", "from-pod", "from the pod")
	host := exec.Command("python3", "testdata/s3.py", exported(t, environment, "S3_ENDPOINT"), "smoke", "from-host", "from the host")
	output, err := host.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	expect(t, string(output), "from the host")
	c.eventually(t, "from the host", "exec", "b", "--", "python3", "-c", string(script), pod, "smoke", "from-host", "from the host")
}

func (c *clusterUnderTest) s3Outage(t *testing.T) {
	probe := inPod("b", `
		import socket
		try:
		    socket.create_connection(("s3.kube-system.svc.cluster.local", 7070), 3).close()
		    print("accepted")
		except ConnectionRefusedError:
		    print("refused")`)
	c.eventually(t, "accepted", probe...)
	c.run(t, "service", "stop", "control", "s3")
	c.eventually(t, "refused", probe...)
	c.run(t, "service", "start", "control", "s3")
	c.eventually(t, "accepted", probe...)
}

func (c *clusterUnderTest) policies(t *testing.T) {
	address := c.kubectl(t, "get", "pod", "a", "-o", "jsonpath={.status.podIP}")
	connect := fmt.Sprintf(`
		import socket
		try:
		    socket.create_connection((%q, 8000), 2).close()
		    print("let in")
		except TimeoutError:
		    print("kept out")`, address)
	see := func(fromOther, fromSame string) {
		t.Helper()
		c.eventually(t, fromOther, inPod("b", connect)...)
		c.eventually(t, fromSame, inPod("c", connect)...)
	}
	see("let in", "let in")
	for _, friend := range []string{"b", "c"} {
		c.kubectlWithInput(t, fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: friends}, spec: {
			podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress],
			ingress: [{from: [{podSelector: {matchLabels: {app: %s}}}], ports: [{port: web}]},
				{from: [{ipBlock: {cidr: 172.16.0.0/12, except: [172.16.1.0/24, 172.17.0.0/16]}}],
				ports: [{port: 80, endPort: 90}, {protocol: SCTP, port: 80}, {protocol: UDP}]}]}}`, friend), "apply", "-f", "-")
		if friend == "b" {
			see("let in", "kept out")
		} else {
			see("kept out", "let in")
		}
	}
	c.eventually(t, "True", "get", "pod", "a", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`) // probes pass
	c.kubectl(t, "delete", "networkpolicy", "friends")
	see("let in", "let in")
}
