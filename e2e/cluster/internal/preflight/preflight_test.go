package preflight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADirectoryWithEveryPluginIsFound(t *testing.T) {
	directory := t.TempDir()
	for _, plugin := range cniPlugins {
		if err := os.WriteFile(filepath.Join(directory, plugin), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, err := findCNI("", "/nowhere", directory)
	if err != nil || found != directory {
		t.Fatalf("got %q, %v", found, err)
	}
}

func TestMissingPluginsAreReportedWithThePackageThatHasThem(t *testing.T) {
	_, err := findCNI("/nowhere")
	if err == nil || !strings.Contains(err.Error(), "apt-get install containernetworking-plugins") {
		t.Fatalf("got %v", err)
	}
}

func TestBridgesThatAreNotFilteredAreReportedWithTheModuleThatDoesIt(t *testing.T) {
	err := bridgesAreFiltered("/nowhere")
	if err == nil || !strings.Contains(err.Error(), "modprobe br_netfilter") {
		t.Fatalf("got %v", err)
	}
}
