package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func packTree(t *testing.T, modified time.Time) []byte {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"bin/tool": "#!x", "tmp/junk": "junk", "a": "1"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := Pack(Image{Name: "localhost/x:1", Root: root, Empty: []string{"/tmp"}}, path); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func entries(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(reader)
		found[header.Name] = body
	}
}

func TestTheSameTreeGivesTheSameArchiveWhateverItsTimes(t *testing.T) {
	if !bytes.Equal(packTree(t, time.Unix(1, 0)), packTree(t, time.Unix(1_000_000, 0))) {
		t.Fatal("the archives differ")
	}
}

func TestTheArchiveLeadsFromTheIndexToALayerWithoutTheEmptiedFiles(t *testing.T) {
	archive := entries(t, packTree(t, time.Now()))
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(archive["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Layers []descriptor }
	if err := json.Unmarshal(archive[blob(index.Manifests[0])], &manifest); err != nil {
		t.Fatal(err)
	}
	layer := entries(t, archive[blob(manifest.Layers[0])])
	if _, there := layer["tmp/junk"]; there {
		t.Error("a file below an emptied directory is in the layer")
	}
	for _, name := range []string{"tmp/", "bin/tool", "a", "b"} {
		if _, there := layer[name]; !there {
			t.Errorf("%s is missing", name)
		}
	}
}
