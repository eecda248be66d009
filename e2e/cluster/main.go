// The program cluster is a real Kubernetes for a machine that has none: every component in one static binary, and the
// commands that make a cluster of them. See `cluster --help`.
package main

import (
	"os"
	"path/filepath"

	"github.com/statefulspark/e2e/cluster/internal/cli"
)

func main() {
	// Called by a component's name (a link), or with it as the first argument, this program is that component.
	if name := filepath.Base(os.Args[0]); isComponent(name) {
		runComponent(name)
	}
	if len(os.Args) > 1 && isComponent(os.Args[1]) {
		os.Args = os.Args[1:]
		runComponent(os.Args[0])
	}
	os.Exit(cli.Run(os.Args[1:]))
}
