//go:build smoke

package smoke

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/process"
)

var buildDir = flag.String("build", "", "the repository's build directory, which holds bin/ and images/")

const nobody = 65534

type clusterUnderTest struct {
	program, dir string
	credential   *syscall.Credential
}

func builtFile(name string) string { return filepath.Join(*buildDir, name) }

func newCluster(t *testing.T) *clusterUnderTest {
	t.Helper()
	return start(t, nil)
}

// unprivileged is a cluster program run by a user without any rights.
func unprivileged(t *testing.T) *clusterUnderTest {
	t.Helper()
	return start(t, &syscall.Credential{Uid: nobody, Gid: nobody})
}

func start(t *testing.T, credential *syscall.Credential) *clusterUnderTest {
	t.Helper()
	if *buildDir == "" {
		t.Fatal("run `make cluster-smoke`: it builds what this test needs and says where it is")
	}
	parent, err := os.MkdirTemp("", "smoke-")
	if err != nil {
		t.Fatal(err)
	}
	if credential != nil {
		if err := os.Chown(parent, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	c := &clusterUnderTest{builtFile("bin/cluster"), filepath.Join(parent, "cluster"), credential}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := exec.Command("sh", "-c", "tail -n 5 "+c.dir+"/log/*").CombinedOutput()
			t.Logf("last lines of the logs:\n%s", logs)
		}
		_ = c.tryRun("down")
		_ = os.RemoveAll(parent)
	})
	return c
}

func (c *clusterUnderTest) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

func (c *clusterUnderTest) command(arguments ...string) *exec.Cmd {
	command := exec.Command(c.program, append([]string{"--dir", c.dir}, arguments...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: c.credential}
	return command
}

func (c *clusterUnderTest) tryRun(arguments ...string) string {
	output, err := c.command(arguments...).CombinedOutput()
	if err != nil {
		return "failed: " + string(output)
	}
	return string(output)
}

func (c *clusterUnderTest) run(t *testing.T, arguments ...string) string {
	t.Helper()
	began := time.Now()
	output, err := c.command(arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("cluster %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	t.Logf("%5.1f s  cluster %s", time.Since(began).Seconds(), strings.Join(arguments, " "))
	return string(output)
}

func (c *clusterUnderTest) tryKubectl(input string, arguments ...string) (string, error) {
	command := exec.Command(c.program, append([]string{"kubectl"}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig())
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	return string(output), err
}

func (c *clusterUnderTest) kubectlWithInput(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	output, err := c.tryKubectl(input, arguments...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

func (c *clusterUnderTest) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	return c.kubectlWithInput(t, "", arguments...)
}

func (c *clusterUnderTest) apply(t *testing.T, file string) {
	t.Helper()
	c.kubectl(t, "apply", "-f", filepath.Join("testdata", file))
}

// inPod are kubectl's arguments for a Python program in a pod; the program may be indented.
func inPod(pod, program string) []string {
	program = regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(strings.Trim(program, "\n"), "")
	return []string{"exec", pod, "--", "python3", "-c", program}
}

// eventually repeats a kubectl command until it prints what is wanted: Services and names take a moment to be known.
func (c *clusterUnderTest) eventually(t *testing.T, wanted string, arguments ...string) {
	t.Helper()
	output := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if output, _ = c.tryKubectl("", arguments...); strings.Contains(output, wanted) {
			return
		}
	}
	t.Fatalf("want %q, got %q", wanted, output)
}

// killSupervisors is what an out-of-memory killer may do.
func (c *clusterUnderTest) killSupervisors(t *testing.T, name string) {
	t.Helper()
	record, ok := process.Load(filepath.Join(c.dir, "run", name+".pid.json"))
	if !ok {
		t.Fatalf("%s is not recorded", name)
	}
	if err := record.Stop(unix.SIGKILL, 10*time.Second); err != nil {
		t.Fatal(err)
	}
}

func exported(t *testing.T, environment, name string) string {
	t.Helper()
	for _, line := range strings.Split(environment, "\n") {
		if value, found := strings.CutPrefix(line, "export "+name+"="); found {
			return value
		}
	}
	t.Fatalf("%s is not in %q", name, environment)
	return ""
}

func expect(t *testing.T, got, wanted string) {
	t.Helper()
	if !strings.Contains(got, wanted) {
		t.Fatalf("want %q, got %q", wanted, got)
	}
}
