package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func startSleeper(t *testing.T) Record {
	t.Helper()
	command := exec.Command("sleep", "1000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	record, err := Capture(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func TestAStoppedProcessIsGoneEvenWhileItIsAZombie(t *testing.T) {
	sleeper := startSleeper(t)
	if !sleeper.Alive() {
		t.Fatal("the process should be alive before it is stopped")
	}
	if err := sleeper.Stop(unix.SIGTERM, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if sleeper.Alive() {
		t.Fatal("a zombie counts as alive")
	}
}

func TestAReusedPidIsLeftAlone(t *testing.T) {
	sleeper := startSleeper(t)
	stranger := Record{PID: sleeper.PID, StartTicks: sleeper.StartTicks - 1}
	if err := stranger.Stop(unix.SIGKILL, time.Second); err != nil {
		t.Fatal(err)
	}
	if !sleeper.Alive() {
		t.Fatal("a process with the same pid but another start time was killed")
	}
}

func TestARecordSurvivesSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	record, err := Capture(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Save(path); err != nil {
		t.Fatal(err)
	}
	if loaded, ok := Load(path); !ok || loaded != record {
		t.Fatalf("want %v, got %v", record, loaded)
	}
}
