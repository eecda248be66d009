package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"sort"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// manifests returns the commit that HEAD names, and the objects in the YAML files of its directory. The working tree does not count.
func manifests(ctx context.Context, repository, directory string) (string, []*unstructured.Unstructured, error) {
	revision, err := git(ctx, repository, "rev-parse", "HEAD")
	if err != nil {
		return "", nil, err
	}
	revision = strings.TrimSpace(revision)
	listed, err := git(ctx, repository, "ls-tree", "-r", "--name-only", revision, "--", directory)
	if err != nil {
		return "", nil, err
	}
	files := strings.Fields(listed)
	sort.Strings(files)
	var objects []*unstructured.Unstructured
	for _, file := range files {
		if extension := path.Ext(file); extension != ".yaml" && extension != ".yml" {
			continue
		}
		text, err := git(ctx, repository, "show", revision+":"+file)
		if err != nil {
			return "", nil, err
		}
		parsed, err := kube.SplitYAML([]byte(text))
		if err != nil {
			return "", nil, fmt.Errorf("%s of %s: %w", file, revision, err)
		}
		objects = append(objects, parsed...)
	}
	return revision, objects, nil
}

func git(ctx context.Context, repository string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-C", repository}, arguments...)...)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, complaint.String())
	}
	return string(output), nil
}
