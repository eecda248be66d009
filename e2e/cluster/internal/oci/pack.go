// Package oci packs a directory as a one-layer container image.
//
// The layer is not compressed, so that a node has nothing to inflate, and depends on nothing but the files: entries are
// sorted and have no times, so the same tree gives the same digest.
package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const mediaType = "application/vnd.oci.image."

// Image is what an image is made of.
type Image struct {
	// Name is the reference the image gets when it is loaded, such as localhost/base:1.
	Name       string
	Root       string
	Entrypoint []string
	// Empty are directories that are packed without what they hold.
	Empty []string
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Pack writes the image as an OCI archive. The file appears under its name only when it is complete.
func Pack(image Image, path string) error {
	layer, err := os.CreateTemp(filepath.Dir(path), ".layer-*")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	described, err := writeLayer(layer, image)
	if err != nil {
		return fmt.Errorf("cannot pack %s: %w", image.Root, err)
	}
	archive, err := os.CreateTemp(filepath.Dir(path), ".archive-*")
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if err := writeArchive(archive, image, described, layer); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	if err := archive.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(archive.Name(), path)
}

func writeLayer(file io.Writer, image Image) (descriptor, error) {
	digest := sha256.New()
	counter := &countingWriter{}
	packed := tar.NewWriter(io.MultiWriter(file, digest, counter))
	if err := addTree(packed, image); err != nil {
		return descriptor{}, err
	}
	if err := packed.Close(); err != nil {
		return descriptor{}, err
	}
	return descriptor{
		MediaType: mediaType + "layer.v1.tar", Digest: "sha256:" + hex.EncodeToString(digest.Sum(nil)), Size: counter.count,
	}, nil
}

func addTree(packed *tar.Writer, image Image) error {
	empty := map[string]bool{}
	for _, directory := range image.Empty {
		empty[strings.Trim(directory, "/")] = true
	}
	firstNames := map[uint64]string{}
	return filepath.WalkDir(image.Root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(image.Root, path)
		if err != nil || name == "." {
			return err
		}
		if err := addEntry(packed, path, name, entry, firstNames); err != nil {
			return err
		}
		if entry.IsDir() && empty[name] {
			return filepath.SkipDir
		}
		return nil
	})
}

func addEntry(packed *tar.Writer, path, name string, entry fs.DirEntry, firstNames map[uint64]string) error {
	found, err := entry.Info()
	if err != nil || found.Mode()&fs.ModeSocket != 0 {
		return err
	}
	target := ""
	if found.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(found, target)
	if err != nil {
		return err
	}
	header.Name, header.ModTime, header.Uname, header.Gname = name, time.Unix(0, 0), "", ""
	header.AccessTime, header.ChangeTime = time.Time{}, time.Time{}
	header.Format = tar.FormatPAX
	if entry.IsDir() {
		header.Name += "/"
	}
	if status, ok := found.Sys().(*syscall.Stat_t); ok && found.Mode().IsRegular() && status.Nlink > 1 {
		if first, seen := firstNames[status.Ino]; seen {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		} else {
			firstNames[status.Ino] = name
		}
	}
	if err := packed.WriteHeader(header); err != nil || header.Typeflag != tar.TypeReg {
		return err
	}
	return copyFile(packed, path)
}

func copyFile(to io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(to, file)
	return err
}

func writeArchive(to io.Writer, image Image, layer descriptor, layerFile io.ReadSeeker) error {
	configuration, _ := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": image.Entrypoint, "WorkingDir": "/",
			"Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
		// Some tools refuse an image whose history does not account for its layers.
		"history": []any{map[string]any{"created_by": "cluster images pack"}},
	})
	configured := describe("config.v1+json", configuration)
	manifest, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": mediaType + "manifest.v1+json", "config": configured, "layers": []descriptor{layer},
	})
	described := describe("manifest.v1+json", manifest)
	described.Annotations = map[string]string{
		"io.containerd.image.name": image.Name, "org.opencontainers.image.ref.name": image.Name,
	}
	index, _ := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{described}})
	archive := tar.NewWriter(to)
	for _, file := range []struct {
		name string
		body []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index},
		{blob(described), manifest}, {blob(configured), configuration},
	} {
		if err := addBlob(archive, file.name, int64(len(file.body)), bytes.NewReader(file.body)); err != nil {
			return err
		}
	}
	if _, err := layerFile.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := addBlob(archive, blob(layer), layer.Size, layerFile); err != nil {
		return err
	}
	return archive.Close()
}

func addBlob(archive *tar.Writer, name string, size int64, body io.Reader) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.Copy(archive, body)
	return err
}

func describe(kind string, body []byte) descriptor {
	sum := sha256.Sum256(body)
	return descriptor{MediaType: mediaType + kind, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(body))}
}

func blob(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }

type countingWriter struct{ count int64 }

func (w *countingWriter) Write(body []byte) (int, error) {
	w.count += int64(len(body))
	return len(body), nil
}
