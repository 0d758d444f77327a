package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

func newNodeCmd(p *location) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Have nodes fail and come back",
	}
	cmd.AddCommand(newNodeStopCmd(p), newNodeStartCmd(p))
	return cmd
}

func newNodeStopCmd(p *location) *cobra.Command {
	var atOnce bool
	cmd := &cobra.Command{
		Use:   "stop NODE...",
		Short: "Stop the kubelets of nodes, as a power cut does",
		Long: "Stop the kubelets of nodes, as a power cut does. Nothing renews the nodes' leases, nothing tells how their pods are\n" +
			"or confirms that they have ended. Kubernetes notices after 50 seconds and sets the nodes to not ready.",
		Example: "  gpu-sandbox node stop train-01\n  gpu-sandbox node stop --at-once train-01 train-02",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return p.eachNode(cmd, nodes, "its kubelet is stopped", func(ctx context.Context, client kubernetes.Interface, node string) error {
				return sandbox.StopKubelet(ctx, client, node, atOnce)
			})
		},
	}
	cmd.Flags().BoolVar(&atOnce, "at-once", false, "Do not wait until Kubernetes notices: set the nodes to not ready now")
	return cmd
}

func newNodeStartCmd(p *location) *cobra.Command {
	return &cobra.Command{
		Use:     "start NODE...",
		Short:   "Start the kubelets of nodes that were stopped",
		Example: "  gpu-sandbox node start train-01",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, nodes []string) error {
			return p.eachNode(cmd, nodes, "its kubelet runs", sandbox.StartKubelet)
		},
	}
}

// eachNode applies an operation to nodes of the running cluster, and reports the result for each.
func (p *location) eachNode(
	cmd *cobra.Command, nodes []string, done string, do func(context.Context, kubernetes.Interface, string) error,
) error {
	st, err := p.readState()
	if err != nil {
		return err
	}
	client, err := newClient(st.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), nodesTimeout)
	defer cancel()
	for _, node := range nodes {
		if err := do(ctx, client, node); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "node/%s: %s\n", node, done)
	}
	return nil
}
