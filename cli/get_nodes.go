package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
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
			"off, and leaves out GPUs that are not healthy. -o wide says why it does. GPUs that are shared by memory count\n" +
			"in SHARED-FREE instead: what is free of their slots, and of their memory.",
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
		{header: "NAME", elastic: true, value: func(n node) string { return n.Name }},
		{header: "STATUS", value: nodeStatus, color: nodeColor},
		{header: "POOL", elastic: true, value: func(n node) string { return n.Pool }},
		{header: "GPU-TYPE", value: func(n node) string { return n.GPUType }},
		{header: "GPUS", value: func(n node) string { return formatNumber(n.GPUs.Allocatable) }},
		{header: "USED", value: func(n node) string { return formatNumber(n.GPUs.Used) }},
		{header: "FREE", value: func(n node) string { return formatNumber(n.GPUs.Free) }},
		{header: "UNHEALTHY", wide: true, value: func(n node) string { return formatNumber(n.GPUs.Unhealthy) }},
		{header: "SHARED-FREE", optional: true, text: func(n node) phrase.Text { return sharedFree(n.SharedGPUs, n.SharedMemory) }},
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

// sharedFree tells what is free of GPUs that are shared: of their slots, and of the memory that shares can hold. No share fits where either is used up.
func sharedFree(slots *inventory.GPUs, memory *inventory.Capacity) phrase.Text {
	switch {
	case slots == nil:
		return nil
	case memory == nil:
		return phrase.Textf("%d/%d slots", slots.Free, slots.Allocatable)
	}
	free := memory.Allocatable.DeepCopy()
	free.Sub(memory.Requested)
	return phrase.Textf("%d/%d slots, %s/%s GiB", slots.Free, slots.Allocatable, wholeGiB(free), wholeGiB(memory.Allocatable))
}

// wholeGiB is an amount of memory in GiB, rounded down: what is not whole is no room.
func wholeGiB(amount resource.Quantity) string { return formatNumber(amount.Value() >> 30) }

// requestedPercent formats the requested part of a capacity, such as 37%.
func requestedPercent(c inventory.Capacity) string {
	total := c.Allocatable.AsApproximateFloat64()
	if total == 0 {
		return ""
	}
	return strconv.FormatFloat(100*c.Requested.AsApproximateFloat64()/total, 'f', 0, 64) + "%"
}
