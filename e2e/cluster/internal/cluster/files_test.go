package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/statefulspark/e2e/cluster/internal/layout"
)

func clusterIn(t *testing.T, dir string) layout.Cluster {
	t.Helper()
	cluster, err := layout.New(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

func TestADirectoryWithSomebodyElsesFilesIsNeverEmptied(t *testing.T) {
	cluster := clusterIn(t, t.TempDir())
	precious := cluster.Path("log", "precious")
	if err := os.MkdirAll(filepath.Dir(precious), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := claim(cluster); err == nil {
		t.Error("the directory was taken for a cluster's")
	}
	if err := removeFiles(cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Fatal("the file is gone")
	}
}

func TestAClaimedDirectoryIsGoneAfterwards(t *testing.T) {
	cluster := clusterIn(t, filepath.Join(t.TempDir(), "new"))
	if err := claim(cluster); err != nil {
		t.Fatal(err)
	}
	if err := claim(cluster); err != nil {
		t.Fatalf("a second cluster in the same directory was refused: %v", err)
	}
	if err := removeFiles(cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cluster.Dir); !os.IsNotExist(err) {
		t.Fatal("the directory is still there")
	}
}

func TestACommandOnAClusterThatIsNotUpSaysWhatToRun(t *testing.T) {
	cluster := clusterIn(t, filepath.Join(t.TempDir(), "none"))
	_, err := LoadState(cluster)
	want := "no cluster is up in " + cluster.Dir + ": run `cluster up --dir " + cluster.Dir + "`"
	if err == nil || err.Error() != want {
		t.Fatalf("want %q, got %v", want, err)
	}
}

func TestHeldPortsAreFreeAndDifferent(t *testing.T) {
	held, ports, err := holdPorts(3)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(held)
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		seen[port] = true
		if socket, _, err := listenOnLoopback(port); err == nil {
			_ = socket.Close()
			t.Fatalf("somebody else could take the held port %d", port)
		}
	}
}
