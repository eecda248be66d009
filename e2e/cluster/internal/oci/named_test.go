package oci

import (
	"archive/tar"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeIndex(t *testing.T, annotations map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	body, _ := json.Marshal(index{Manifests: []descriptor{{Digest: "sha256:1", Annotations: annotations}}})
	archive := tar.NewWriter(file)
	for name, text := range map[string]string{indexName: string(body), "blobs/sha256/1": "manifest"} {
		if err := addBlob(archive, name, int64(len(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheNameAnotherToolWroteReachesContainerd(t *testing.T) {
	path := writeIndex(t, map[string]string{referenceName: "localhost/x:1"})
	reader, err := OpenNamed(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	body, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	files := entries(t, body)
	var found index
	if err := json.Unmarshal(files[indexName], &found); err != nil {
		t.Fatal(err)
	}
	if got := found.Manifests[0].Annotations[containerdName]; got != "localhost/x:1" {
		t.Fatalf("got %q", got)
	}
	if string(files["blobs/sha256/1"]) != "manifest" {
		t.Fatal("the other files did not come through unchanged")
	}
}

func TestAnArchiveWithoutANameIsRefused(t *testing.T) {
	if _, err := Inspect(writeIndex(t, nil)); err == nil || !strings.Contains(err.Error(), "has no name") {
		t.Fatalf("got %v", err)
	}
}
