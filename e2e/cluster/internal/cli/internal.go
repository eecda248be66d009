package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/network"
	"github.com/statefulspark/e2e/cluster/internal/node"
	"github.com/statefulspark/e2e/cluster/internal/supervisor"
)

// Version is set when the program is linked.
var Version = "unknown"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of Kubernetes", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { fmt.Println(Version) },
	}
}

// The commands below are how this program calls itself.

func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "supervise STACK", Short: "Run a stack of processes", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error { return supervise(arguments[0]) },
	}
}

func nodeInitCommand(which *identity) *cobra.Command {
	return &cobra.Command{
		Use: "node-init N STACK", Short: "Be a node's pid 1", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, arguments []string) error {
			number, err := strconv.Atoi(arguments[0])
			if err != nil {
				return err
			}
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			if err := node.Enter(chosen, number); err != nil {
				return err
			}
			return supervise(arguments[1])
		},
	}
}

func waitReachableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "wait-reachable ADDRESS...", Short: "Wait until every address answers", Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, addresses []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			return network.WaitAll(ctx, addresses)
		},
	}
}

// supervise waits for the starting gun, the end of standard input: whoever started this process lays its cables first.
func supervise(path string) error {
	stack, err := supervisor.Load(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return supervisor.Run(stack)
}
