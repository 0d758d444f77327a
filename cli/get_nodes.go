package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

type getNodesOptions struct {
	listing[inventory.Node]
	pool, gpuType string
}

func newGetNodesCmd(f *Factory) *cobra.Command {
	o := &getNodesOptions{}
	cmd := &cobra.Command{
		Use:     "nodes [NAME]...",
		Aliases: []string{"node", "no"},
		Short:   "List nodes and their GPUs",
		Long: "List nodes and their GPUs. USED counts the GPUs of every pod on the node, whoever made it; FREE is what\n" +
			"a new pod could get, so it is 0 on a node that is not ready or cordoned, and leaves out GPUs that are\n" +
			"not healthy.",
		Example: "  gpuctl get nodes --pool training-pool\n  gpuctl get nodes --gpu-type A100-80G -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.runFleet(cmd.Context(), f, func(c inventory.Cluster) []inventory.Node { return o.filter(c.Nodes) })
		},
		ValidArgsFunction: completeNodes(f),
	}
	o.listing = listing[inventory.Node]{
		io: f.IO, now: f.Now, noun: "node",
		columns: func(time.Time) []column[inventory.Node] { return nodeColumns() },
		name:    func(n inventory.Node) string { return n.Name },
		id:      func(n inventory.Node) string { return "node/" + n.Name },
		print:   func(n inventory.Node) string { return "node/" + n.Name },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.pool, "pool", "", "Only nodes of this pool")
	cmd.Flags().StringVar(&o.gpuType, "gpu-type", "", "Only nodes with this type of GPU")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	return cmd
}

func (o *getNodesOptions) filter(nodes []inventory.Node) []inventory.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n inventory.Node) bool {
		return o.pool != "" && n.Pool != o.pool || o.gpuType != "" && n.GPUType != o.gpuType
	})
}

func nodeColumns() []column[inventory.Node] {
	type node = inventory.Node
	return []column[node]{
		{header: "NAME", value: func(n node) string { return n.Name }},
		{header: "STATUS", value: nodeStatus, color: nodeColor},
		{header: "POOL", value: func(n node) string { return n.Pool }},
		{header: "GPU-TYPE", value: func(n node) string { return n.GPUType }},
		{header: "GPUS", value: func(n node) string { return number(n.GPUs.Allocatable) }},
		{header: "USED", value: func(n node) string { return number(n.GPUs.Used) }},
		{header: "FREE", value: func(n node) string { return number(n.GPUs.Free) }},
		{header: "UNHEALTHY", wide: true, value: func(n node) string { return number(n.GPUs.Unhealthy) }},
		{header: "SHARED-FREE", wide: true, value: func(n node) string { return sharedFree(n.SharedGPUs) }},
		{header: "MEMORY/GPU", value: func(n node) string { return n.MemoryPerGPU }},
		{header: "LINK", value: func(n node) string { return n.Interconnect }},
		{header: "RACK", wide: true, value: func(n node) string { return n.Rack }},
		{header: "CPU-USED", wide: true, value: func(n node) string { return share(n.CPU) }},
		{header: "MEM-USED", wide: true, value: func(n node) string { return share(n.Memory) }},
		{header: "PODS", wide: true, value: func(n node) string { return strconv.Itoa(n.Pods) }},
	}
}

func nodeStatus(n inventory.Node) string {
	switch {
	case !n.Ready:
		return "NotReady"
	case n.Cordoned:
		return "Cordoned"
	}
	return "Ready"
}

func nodeColor(n inventory.Node) string {
	switch {
	case !n.Ready:
		return colorRed
	case n.Cordoned:
		return colorYellow
	}
	return colorGreen
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func sharedFree(g *inventory.GPUs) string {
	if g == nil {
		return ""
	}
	return number(g.Free) + "/" + number(g.Allocatable)
}

// share is the requested part of a capacity, such as 37%.
func share(c inventory.Capacity) string {
	total := c.Allocatable.AsApproximateFloat64()
	if total == 0 {
		return ""
	}
	return strconv.FormatFloat(100*c.Requested.AsApproximateFloat64()/total, 'f', 0, 64) + "%"
}
