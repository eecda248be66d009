package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/node"
	"github.com/statefulspark/e2e/cluster/internal/oci"
	"github.com/statefulspark/e2e/cluster/internal/preflight"
)

// LoadImages brings image archives to every running node. What a node has already is not sent again.
func LoadImages(cluster layout.Cluster, files []string, progress Progress) error {
	state, err := LoadState(cluster)
	if err != nil {
		return err
	}
	tools, err := preflight.Check()
	if err != nil {
		return err
	}
	loads := make(chan error)
	for number := 1; number <= state.Nodes; number++ {
		go func() { loads <- loadOnNode(cluster, number, tools.Ctr, files, progress) }()
	}
	for range state.Nodes {
		err = errors.Join(err, <-loads)
	}
	return err
}

// readable returns an error that names the first archive that is missing.
func readable(files []string) error {
	for _, file := range files {
		if _, err := oci.Inspect(file); err != nil {
			return fmt.Errorf("%w (`make images` builds the images)", err)
		}
	}
	return nil
}

func loadOnNode(cluster layout.Cluster, number int, ctr string, files []string, progress Progress) error {
	m := machine{cluster, layout.NodeName(number)}
	record, running := m.find()
	if !running {
		progress("%s is down and gets no images", m.name)
		return nil
	}
	for _, file := range files {
		if err := loadImage(ctr, node.ContainerdSocket(record.PID), file); err != nil {
			return fmt.Errorf("node %s: %w", m.name, err)
		}
		progress("%s: %s", m.name, file)
	}
	return nil
}

func loadImage(ctr, socket, file string) error {
	image, err := oci.Inspect(file)
	if err != nil {
		return err
	}
	client := func(stdin io.Reader, args ...string) (string, error) {
		command := exec.Command(ctr, append([]string{"--address", socket, "--namespace", "k8s.io", "images"}, args...)...)
		var output bytes.Buffer
		command.Stdin, command.Stdout, command.Stderr = stdin, &output, &output
		if err := command.Run(); err != nil {
			return "", fmt.Errorf("cannot load %s: %w: %s", file, err, strings.TrimSpace(output.String()))
		}
		return output.String(), nil
	}
	present, err := client(nil, "list", "name=="+image.Name)
	if err != nil || strings.Contains(present, image.Digest) {
		return err
	}
	reader, err := oci.OpenNamed(file)
	if err != nil {
		return err
	}
	defer reader.Close()
	_, err = client(reader, "import", "-")
	return err
}
