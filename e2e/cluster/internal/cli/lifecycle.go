package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/statefulspark/e2e/cluster/internal/cluster"
)

func upCommand(which *identity) *cobra.Command {
	options := cluster.UpOptions{}
	command := &cobra.Command{
		Use:   "up",
		Short: "Bring a cluster up (root): control plane, DNS, S3 and one or more nodes",
		Long: `Bring a cluster up and return when every node is Ready and DNS and S3 answer.

What is left of the same cluster, after a crash say, is removed first; a cluster that is up is started anew. The last
line printed is the path of the kubeconfig. When it fails, the processes are stopped and the logs stay in DIR/log.

S3 (versitygw) is at the address ` + "`cluster env`" + ` prints for the host, and at
http://s3.kube-system.svc.cluster.local:7070 for pods; access key "test", secret key "test-secret", path style.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			state, err := cluster.Up(chosen, options, timed())
			if err != nil {
				return err
			}
			fmt.Println(state.Kubeconfig)
			return nil
		},
	}
	flags := command.Flags()
	flags.IntVar(&options.Nodes, "nodes", 1, "number of nodes")
	flags.StringArrayVar(&options.Images, "load", nil, "image archive every node gets (repeatable)")
	flags.StringVar(&options.Pause, "pause", besideThisProgram("../images/pause.tar"), "image archive of localhost/pause:1")
	flags.StringArrayVar(&options.Buckets, "bucket", nil, "S3 bucket to make (repeatable)")
	flags.StringVar(&options.Versitygw, "versitygw", besideThisProgram("versitygw"), "program of the S3 server")
	return command
}

func downCommand(which *identity) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take the cluster down without a trace: processes, namespaces, control groups, files",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			return cluster.Down(chosen)
		},
	}
}

func statusCommand(which *identity) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show addresses and which nodes run and are Ready",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			text, err := cluster.Status(chosen)
			fmt.Print(text)
			return err
		},
	}
}

func envCommand(which *identity) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print shell lines that set KUBECONFIG and the S3 addresses and keys",
		Long: `Print shell lines that set KUBECONFIG, S3_ENDPOINT (from the host), S3_POD_ENDPOINT (from pods),
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION:

  eval "$(cluster env)"`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			state, err := cluster.LoadState(chosen)
			if err != nil {
				return err
			}
			fmt.Print(state.Environment())
			return nil
		},
	}
}

func memoryCommand(which *identity) *cobra.Command {
	return &cobra.Command{
		Use:   "rss",
		Short: "Show the memory each process of the cluster uses",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			fmt.Print(cluster.Memory(chosen))
			return nil
		},
	}
}

func checkCleanCommand(which *identity) *cobra.Command {
	return &cobra.Command{
		Use:   "check-clean",
		Short: "Fail if a cluster that is down has left processes, mounts, control groups or files",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			return cluster.CheckClean(chosen)
		},
	}
}
