package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type getPoolsOptions struct {
	listing[inventory.Pool]
	gpuType string
}

func newGetPoolsCmd(f *Factory) *cobra.Command {
	o := &getPoolsOptions{}
	cmd := &cobra.Command{
		Use:     "pools [NAME]...",
		Aliases: []string{"pool", "p"},
		Short:   "List pools and their GPUs",
		Long: "List pools and their GPUs. A node that is in no named pool is in the pool default. FREE leaves out the\n" +
			"GPUs of nodes that take no pods, and those that are not healthy. WAITING is how many GPUs jobs wait for,\n" +
			"where the pool has a GPUPool that gpu-controller looks after.",
		Example: "  gpuctl get pools\n  gpuctl get pools --gpu-type A100-80G",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.runFleet(cmd.Context(), f, func(c inventory.Cluster) []inventory.Pool { return o.filterPools(c.Pools) })
		},
		ValidArgsFunction: completePools(f),
	}
	o.listing = listing[inventory.Pool]{
		io: f.IO, now: f.Now, noun: "pool",
		columns: func(time.Time) []column[inventory.Pool] { return poolColumns() },
		name:    func(p inventory.Pool) string { return p.Name },
		id:      func(p inventory.Pool) string { return "pool/" + p.Name },
		print:   func(p inventory.Pool) string { return "pool/" + p.Name },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.gpuType, "gpu-type", "", "Only pools that have this type of GPU")
	return cmd
}

func (o *getPoolsOptions) filterPools(pools []inventory.Pool) []inventory.Pool {
	return slices.DeleteFunc(slices.Clone(pools), func(p inventory.Pool) bool {
		return o.gpuType != "" && !slices.ContainsFunc(p.Types, func(t inventory.TypeSummary) bool { return t.GPUType == o.gpuType })
	})
}

func poolColumns() []column[inventory.Pool] {
	type pool = inventory.Pool
	return []column[pool]{
		{header: "NAME", elastic: true, value: func(p pool) string { return p.Name }},
		{header: "NODES", value: func(p pool) string { return fmt.Sprintf("%d/%d", p.ReadyNodes, len(p.Nodes)) }},
		{header: "GPUS", value: func(p pool) string { return formatNumber(p.GPUs.Allocatable) }},
		{header: "USED", value: func(p pool) string { return formatNumber(p.GPUs.Used) }},
		{header: "FREE", value: func(p pool) string { return formatNumber(p.GPUs.Free) }},
		{header: "UNHEALTHY", wide: true, value: func(p pool) string { return formatNumber(p.GPUs.Unhealthy) }},
		{header: "SHARED-FREE", optional: true, text: func(p pool) phrase.Text { return sharedFree(p.SharedGPUs, p.SharedMemory) }},
		{header: "WAITING", value: poolWaiting},
		{header: "AVAILABLE", wide: true, value: func(p pool) string { return poolCondition(p, names.ConditionAvailable) }},
		{header: "GPU-TYPES (FREE/ALL)", spill: true, value: func(p pool) string { return strings.Join(poolTypes(p), ", ") }},
		{header: "MIG (FREE/ALL)", wide: true, value: func(p pool) string { return migFree(p.MIG) }},
		{header: "ADVICE", wide: true, value: poolAdvice},
	}
}

// poolWaiting returns how many GPUs jobs wait for, if the pool's GPUPool reports it.
func poolWaiting(p inventory.Pool) string {
	if p.Declared == nil {
		return ""
	}
	return formatNumber(p.Declared.Status.Pending.GPUs)
}

// poolCondition returns the status of a condition of the pool's GPUPool, or "".
func poolCondition(p inventory.Pool, kind string) string {
	if p.Declared == nil {
		return ""
	}
	if condition := meta.FindStatusCondition(p.Declared.Status.Conditions, kind); condition != nil {
		return string(condition.Status)
	}
	return ""
}

func poolAdvice(p inventory.Pool) string {
	if p.Declared == nil || p.Declared.Status.Advice == nil {
		return ""
	}
	return p.Declared.Status.Advice.Text
}

func poolTypes(p inventory.Pool) []string {
	out := make([]string, len(p.Types))
	for i, t := range p.Types {
		name := t.GPUType
		if name == "" {
			name = "unknown"
		}
		out[i] = fmt.Sprintf("%s %d/%d", name, t.GPUs.Free, t.GPUs.Allocatable)
	}
	return out
}
