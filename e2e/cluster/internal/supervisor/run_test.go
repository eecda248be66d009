package supervisor

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be the supervisor it tests.
func TestMain(m *testing.M) {
	if path := os.Getenv("SUPERVISE_STACK"); path != "" {
		stack, err := Load(path)
		if err == nil {
			err = Run(stack)
		}
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type supervised struct {
	dir     string
	command *exec.Cmd
}

func supervise(t *testing.T, stack Stack, inherited ...*os.File) supervised {
	t.Helper()
	dir := t.TempDir()
	stack.StoppedDir = filepath.Join(dir, "stopped")
	if err := os.Mkdir(stack.StoppedDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range stack.Units {
		stack.Units[i].Log = filepath.Join(dir, stack.Units[i].Name+".log")
	}
	path := filepath.Join(dir, "stack.json")
	if err := stack.Save(path); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "SUPERVISE_STACK="+path)
	command.ExtraFiles = inherited
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	return supervised{dir: dir, command: command}
}

// pids waits until the unit has written that many pids to its log.
func (s supervised) pids(t *testing.T, unit string, count int) []int {
	t.Helper()
	var found []int
	waitFor(t, func() bool {
		body, _ := os.ReadFile(filepath.Join(s.dir, unit+".log"))
		found = nil
		for _, line := range strings.Fields(string(body)) {
			if pid, err := strconv.Atoi(line); err == nil {
				found = append(found, pid)
			}
		}
		return len(found) >= count
	})
	return found
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatal("the condition did not come true within 10 s")
}

func gone(pid int) bool {
	body, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || bytes.Contains(body, []byte(") Z "))
}

func sleeper(name string) Unit {
	return Unit{Name: name, Args: []string{"/bin/sh", "-c", "echo $$; exec sleep 1000"}}
}

func TestAUnitThatDiesIsStartedAgain(t *testing.T) {
	running := supervise(t, Stack{Units: []Unit{sleeper("a")}})
	first := running.pids(t, "a", 1)[0]
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if second := running.pids(t, "a", 2)[1]; second == first {
		t.Fatal("the second process has the first one's pid")
	}
}

func TestTerminationStopsEveryUnitBeforeTheSupervisorEnds(t *testing.T) {
	running := supervise(t, Stack{Units: []Unit{sleeper("a"), sleeper("b")}})
	a, b := running.pids(t, "a", 1)[0], running.pids(t, "b", 1)[0]
	_ = running.command.Process.Signal(unix.SIGTERM)
	if err := running.command.Wait(); err != nil {
		t.Fatal(err)
	}
	if !gone(a) || !gone(b) {
		t.Fatal("a unit outlived its supervisor")
	}
}

func TestAKilledSupervisorTakesItsUnitsWithIt(t *testing.T) {
	running := supervise(t, Stack{Units: []Unit{sleeper("a")}})
	unit := running.pids(t, "a", 1)[0]
	_ = running.command.Process.Kill()
	waitFor(t, func() bool { return gone(unit) })
}

func TestAMarkedUnitStaysDownUntilTheMarkIsGone(t *testing.T) {
	running := supervise(t, Stack{Units: []Unit{sleeper("a")}})
	first := running.pids(t, "a", 1)[0]
	mark := filepath.Join(running.dir, "stopped", "a")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = running.command.Process.Signal(unix.SIGHUP)
	waitFor(t, func() bool { return gone(first) })
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	_ = running.command.Process.Signal(unix.SIGHUP)
	running.pids(t, "a", 2)
}

func TestAUnitWaitsForWhatItNeeds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "needed")
	unit := sleeper("a")
	unit.After = []string{"unix://" + socket}
	running := supervise(t, Stack{Units: []Unit{unit, sleeper("b")}})
	running.pids(t, "b", 1)
	if _, err := os.Stat(filepath.Join(running.dir, "a.log")); err == nil {
		t.Fatal("the unit was started before its socket existed")
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	running.pids(t, "a", 1)
}

func TestAForwardCarriesRequestsToItsDestination(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	supervise(t, Stack{Forwards: []Forward{{FileDescriptor: 3, To: server.Listener.Addr().String()}}}, socket)
	response, err := http.Post("http://"+address, "text/plain", strings.NewReader("there and back"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "there and back" {
		t.Fatalf("got %q", body)
	}
}

func TestAStackSurvivesSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stack")
	want := Stack{Units: []Unit{{Name: "a", Args: []string{"x"}, Log: "l"}}, Held: []int{4}, StoppedDir: "s"}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON, _ := json.Marshal(want)
	if gotJSON, _ := json.Marshal(got); !bytes.Equal(wantJSON, gotJSON) {
		t.Fatalf("want %s, got %s", wantJSON, gotJSON)
	}
}
