package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

type describeNodeOptions struct {
	factory *Factory
	output  *output
}

// nodeDetail is a node with its pods.
type nodeDetail struct {
	inventory.Node
	PodList []inventory.NodePod `json:"podList"`
}

func newDescribeNodeCmd(f *Factory) *cobra.Command {
	o := &describeNodeOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "node NAME",
		Aliases: []string{"nodes"},
		Short:   "Show one node: its GPUs, and which pods hold them",
		Example: "  gpuctl describe node node-1",
		Args:    exactlyOne("the name of one node"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeNode(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: completeNodes(f),
	}
	o.output = describeOutput(cmd)
	return cmd
}

func runDescribeNode(ctx context.Context, o *describeNodeOptions, name string) error {
	reader, cluster, err := o.factory.fleet(ctx)
	if err != nil {
		return err
	}
	node, ok := cluster.Node(name)
	if !ok {
		return &notFoundError{
			what: fmt.Sprintf("node %q", name), near: meantBy(name, cluster.Nodes, func(n *inventory.Node) string { return n.Name }),
		}
	}
	pods, err := reader.NodePods(ctx, name)
	if err != nil {
		return err
	}
	if o.output.format != "" {
		return encode(o.factory.IO.Out, o.output.format, nodeDetail{Node: node, PodList: pods})
	}
	return describeNode(newDescription(o.factory.IO), node, pods)
}

func describeNode(d *description, node inventory.Node, pods []inventory.NodePod) error {
	d.line("Name", node.Name)
	d.line("Status", nodeStatus(node))
	d.line("Pool", node.Pool)
	d.line("Rack", node.Rack)
	d.line("GPU type", node.GPUType)
	d.line("GPUs", gpuSentence(node.GPUs))
	if node.SharedGPUs != nil {
		d.line("Shared GPUs", gpuSentence(*node.SharedGPUs))
	}
	d.line("Memory/GPU", node.MemoryPerGPU)
	d.line("Link", node.Interconnect)
	d.line("CPU", capacitySentence(node.CPU))
	d.line("Memory", capacitySentence(node.Memory))
	d.line("Unreadable", strings.Join(node.InvalidPods, ", "))
	type pod = inventory.NodePod
	return describeRows(d, "Pods", pods, []column[pod]{
		{header: "NAMESPACE", value: func(p pod) string { return p.Namespace }},
		{header: "NAME", value: func(p pod) string { return p.Name }},
		{header: "JOB", value: func(p pod) string { return p.Job }},
		{header: "KIND", value: func(p pod) string { return p.Kind }},
		{header: "PHASE", value: func(p pod) string { return p.Phase }},
		{header: "GPUS", value: func(p pod) string { return number(p.GPUs) }},
	})
}

func gpuSentence(g inventory.GPUs) string {
	text := fmt.Sprintf("%d, %d used, %d free", g.Allocatable, g.Used, g.Free)
	if g.Unhealthy > 0 {
		text += fmt.Sprintf(", %d unhealthy", g.Unhealthy)
	}
	return text
}

func capacitySentence(c inventory.Capacity) string {
	return fmt.Sprintf("%s, %s requested (%s)", c.Allocatable.String(), c.Requested.String(), share(c))
}
