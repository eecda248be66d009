package oci

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

const (
	indexName      = "index.json"
	containerdName = "io.containerd.image.name"
	referenceName  = "org.opencontainers.image.ref.name"
)

// Named is what an archive holds: one image.
type Named struct {
	Name, Digest string
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Manifests     []descriptor `json:"manifests"`
}

// Inspect reads which image an OCI archive holds.
func Inspect(path string) (Named, error) {
	file, err := os.Open(path)
	if err != nil {
		return Named{}, fmt.Errorf("cannot open the image archive: %w", err)
	}
	defer file.Close()
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if err != nil {
			return Named{}, fmt.Errorf("%s is no OCI archive: it has no %s", path, indexName)
		}
		if header.Name != indexName {
			continue
		}
		found, err := readIndex(reader)
		if err != nil {
			return Named{}, fmt.Errorf("%s: %w", path, err)
		}
		return Named{Name: found.Manifests[0].Annotations[containerdName], Digest: found.Manifests[0].Digest}, nil
	}
}

// OpenNamed reads an OCI archive with the image's full name where containerd looks for it. Other tools write the name
// in another annotation, which containerd takes for a tag.
func OpenNamed(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	reader, writer := io.Pipe()
	go func() {
		defer file.Close()
		writer.CloseWithError(rename(writer, file))
	}()
	return reader, nil
}

func rename(to io.Writer, from io.Reader) error {
	source, target := tar.NewReader(from), tar.NewWriter(to)
	for {
		header, err := source.Next()
		if err == io.EOF {
			return target.Close()
		}
		if err != nil {
			return err
		}
		if err := copyEntry(target, source, header); err != nil {
			return err
		}
	}
}

func copyEntry(target *tar.Writer, source io.Reader, header *tar.Header) error {
	if header.Name != indexName {
		if err := target.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.Copy(target, source)
		return err
	}
	found, err := readIndex(source)
	if err != nil {
		return err
	}
	body, err := json.Marshal(found)
	if err != nil {
		return err
	}
	header.Size = int64(len(body))
	if err := target.WriteHeader(header); err != nil {
		return err
	}
	_, err = target.Write(body)
	return err
}

func readIndex(reader io.Reader) (index, error) {
	var found index
	if err := json.NewDecoder(reader).Decode(&found); err != nil {
		return index{}, fmt.Errorf("its %s is damaged: %w", indexName, err)
	}
	if len(found.Manifests) != 1 {
		return index{}, fmt.Errorf("it holds %d images, not one", len(found.Manifests))
	}
	annotations := found.Manifests[0].Annotations
	if annotations[containerdName] == "" {
		if annotations[referenceName] == "" {
			return index{}, fmt.Errorf("its image has no name: write it with oci-archive:FILE:NAME")
		}
		annotations[containerdName] = annotations[referenceName]
	}
	return found, nil
}
