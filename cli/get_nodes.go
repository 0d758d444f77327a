package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

type getNodesOptions struct {
	listing[inventory.Node]
	gpuType string
}

func newGetNodesCmd(f *Factory) *cobra.Command {
	o := &getNodesOptions{}
	cmd := &cobra.Command{
		Use:     "nodes [NAME]...",
		Aliases: []string{"node", "no"},
		Short:   "List nodes and their GPUs",
		Long: "List nodes and their GPUs. USED counts the GPUs of every pod on the node, whoever made it; FREE is what\n" +
			"a new pod could get, so it is 0 on a node that is not ready or cordoned, or that gpu-controller keeps pods\n" +
			"off, and leaves out GPUs that are not healthy. -o wide says why it does.",
		Example: "  gpuctl get nodes --pool training-pool\n  gpuctl get nodes --gpu-type A100-80G -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.runFleet(cmd.Context(), f, func(c inventory.Cluster) []inventory.Node { return o.filterNodes(c.Nodes) })
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
	o.addPoolFlag(cmd, f, "Only nodes of this pool")
	cmd.Flags().StringVar(&o.gpuType, "gpu-type", "", "Only nodes with this type of GPU")
	return cmd
}

func (o *getNodesOptions) filterNodes(nodes []inventory.Node) []inventory.Node {
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
		{header: "GPUS", value: func(n node) string { return formatNumber(n.GPUs.Allocatable) }},
		{header: "USED", value: func(n node) string { return formatNumber(n.GPUs.Used) }},
		{header: "FREE", value: func(n node) string { return formatNumber(n.GPUs.Free) }},
		{header: "UNHEALTHY", wide: true, value: func(n node) string { return formatNumber(n.GPUs.Unhealthy) }},
		{header: "SHARED-FREE", wide: true, value: func(n node) string { return sharedFree(n.SharedGPUs) }},
		{header: "MIG-FREE", optional: true, value: func(n node) string { return migFree(n.MIG) }},
		{header: "MEMORY/GPU", spare: true, value: func(n node) string { return n.MemoryPerGPU }},
		{header: "LINK", spare: true, value: func(n node) string { return n.Interconnect }},
		{header: "RACK", wide: true, value: func(n node) string { return n.Rack }},
		{header: "CPU-USED", wide: true, value: func(n node) string { return requestedPercent(n.CPU) }},
		{header: "MEM-USED", wide: true, value: func(n node) string { return requestedPercent(n.Memory) }},
		{header: "PODS", wide: true, value: func(n node) string { return strconv.Itoa(n.Pods) }},
		{header: "STATE", wide: true, text: nodeStateTexts},
	}
}

// migFree lists the free MIG slices of each profile, and their total.
func migFree(all []inventory.ProfileCount) string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = fmt.Sprintf("%s %d/%d", p.Profile, p.Free, p.Allocatable)
	}
	return strings.Join(out, ", ")
}

func formatNumber(n int64) string { return strconv.FormatInt(n, 10) }

func sharedFree(g *inventory.GPUs) string {
	if g == nil {
		return ""
	}
	return formatNumber(g.Free) + "/" + formatNumber(g.Allocatable)
}

// requestedPercent formats the requested part of a capacity, such as 37%.
func requestedPercent(c inventory.Capacity) string {
	total := c.Allocatable.AsApproximateFloat64()
	if total == 0 {
		return ""
	}
	return strconv.FormatFloat(100*c.Requested.AsApproximateFloat64()/total, 'f', 0, 64) + "%"
}
