package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/statefulspark/e2e/cluster/internal/cluster"
	"github.com/statefulspark/e2e/cluster/internal/layout"
	"github.com/statefulspark/e2e/cluster/internal/oci"
)

func nodeCommand(which *identity) *cobra.Command {
	command := &cobra.Command{Use: "node", Short: "Lose a node, bring it back, cut it off (root)"}
	add := func(use, short string, action func(chosen layout.Cluster, number int) error) *cobra.Command {
		added := &cobra.Command{
			Use: use + " N", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, arguments []string) error {
				number, err := strconv.Atoi(arguments[0])
				if err != nil {
					return fmt.Errorf("%q is no node number: nodes are counted from 1", arguments[0])
				}
				chosen, err := which.cluster()
				if err != nil {
					return err
				}
				return action(chosen, number)
			},
		}
		command.AddCommand(added)
		return added
	}
	add("kill", "Cut the node's power: everything on it dies at once", cluster.KillNode)
	add("start", "Start a node that was killed, with the disk it had", func(chosen layout.Cluster, number int) error {
		return cluster.StartNode(chosen, number, timed())
	})
	add("cut", "Pull the node's network cable; its containers run on", cluster.CutNode)
	add("heal", "Plug the cable in again", cluster.HealNode)
	var limit time.Duration
	for _, ready := range []bool{true, false} {
		use, short := "wait-ready", "Wait until the API server holds the node for Ready"
		if !ready {
			use, short = "wait-lost", "Wait until the API server has noticed that the node is lost"
		}
		added := add(use, short, func(chosen layout.Cluster, number int) error {
			return cluster.WaitNode(chosen, number, ready, limit)
		})
		added.Flags().DurationVar(&limit, "timeout", time.Minute, "how long to wait")
	}
	return command
}

func serviceCommand(which *identity) *cobra.Command {
	command := &cobra.Command{
		Use:   "service",
		Short: "Stop and start one process: s3, kube-apiserver, kubelet ...",
		Long: `Stop and start one process of a machine, to see what others do without it.

The machine is "control" (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, coredns, s3), a node such as
"n1" (containerd, kubelet, kube-proxy), or "api" and "s3" where those run alone. A stopped process is killed:

  cluster service stop control s3`,
	}
	for use, stopped := range map[string]bool{"stop": true, "start": false} {
		command.AddCommand(&cobra.Command{
			Use: use + " MACHINE NAME", Short: use + " a process", Args: cobra.ExactArgs(2),
			RunE: func(_ *cobra.Command, arguments []string) error {
				chosen, err := which.cluster()
				if err != nil {
					return err
				}
				return cluster.SetService(chosen, arguments[0], arguments[1], stopped)
			},
		})
	}
	return command
}

func imagesCommand(which *identity) *cobra.Command {
	command := &cobra.Command{Use: "images", Short: "Bring images to the nodes; pack a directory as an image"}
	command.AddCommand(&cobra.Command{
		Use: "load FILE...", Short: "Load OCI archives into every running node (root); what is there is skipped",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			return cluster.LoadImages(chosen, files, timed())
		},
	})
	image := oci.Image{}
	pack := &cobra.Command{
		Use: "pack DIRECTORY FILE", Short: "Pack a directory as a one-layer OCI archive", Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, arguments []string) error {
			image.Root = arguments[0]
			return oci.Pack(image, arguments[1])
		},
	}
	pack.Flags().StringVar(&image.Name, "name", "", "the image's full name, such as localhost/base:1")
	pack.Flags().StringArrayVar(&image.Entrypoint, "entrypoint", nil, "program the image runs, then its arguments (repeatable)")
	pack.Flags().StringArrayVar(&image.Empty, "empty", nil, "directory to pack without what is in it (repeatable)")
	_ = pack.MarkFlagRequired("name")
	command.AddCommand(pack)
	return command
}

func apiCommand(which *identity) *cobra.Command {
	command := &cobra.Command{
		Use:   "api",
		Short: "An API server alone, on loopback, without root",
		Long: `An API server with etcd and the controllers a test of the API notices (namespaces, service accounts, garbage
collection), on free loopback ports. Nothing runs pods. Many can be up at a time, each with its own --dir.`,
	}
	command.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Start it; prints the path of the kubeconfig", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				chosen, err := which.cluster()
				if err != nil {
					return err
				}
				state, err := cluster.APIUp(chosen)
				if err == nil {
					fmt.Println(state.Kubeconfig)
				}
				return err
			},
		},
		&cobra.Command{
			Use: "down", Short: "Stop it and remove its files", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				chosen, err := which.cluster()
				if err != nil {
					return err
				}
				return cluster.APIDown(chosen)
			},
		},
	)
	return command
}

func s3Command(which *identity) *cobra.Command {
	command := &cobra.Command{Use: "s3", Short: "An S3 server alone, on loopback, without root"}
	var port int
	var buckets []string
	var program string
	up := &cobra.Command{
		Use: "up", Short: "Start it; prints JSON: endpoint, accessKey, secretKey, region, pid", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			server, err := cluster.S3Up(chosen, program, port, buckets)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(server)
		},
	}
	up.Flags().IntVar(&port, "port", 0, "loopback port; 0 takes a free one")
	up.Flags().StringArrayVar(&buckets, "bucket", nil, "bucket to make (repeatable)")
	up.Flags().StringVar(&program, "versitygw", besideThisProgram("versitygw"), "program of the S3 server")
	down := &cobra.Command{
		Use: "down", Short: "Stop it and remove what it stored", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			chosen, err := which.cluster()
			if err != nil {
				return err
			}
			return cluster.S3Down(chosen)
		},
	}
	command.AddCommand(up, down)
	return command
}
