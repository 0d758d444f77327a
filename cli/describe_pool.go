package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/usage"
)

type describePoolOptions struct {
	factory    *Factory
	prometheus prometheusOptions
	output     *output
}

// poolDetail is a pool with its nodes and jobs.
type poolDetail struct {
	inventory.Pool
	// Load is the load of its GPUs, nil if no metrics source is configured.
	Load *usage.Load `json:"load,omitempty"`
	// Use is how much CPU and memory its nodes use.
	Use      usage.MachineLoad `json:"use"`
	NodeList []inventory.Node  `json:"nodeList"`
	Jobs     []inventory.Job   `json:"jobs"`
}

func newDescribePoolCmd(f *Factory) *cobra.Command {
	o := &describePoolOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "pool NAME",
		Aliases: []string{"pools"},
		Short:   "Show one pool: its GPUs by type, its CPU and memory, its nodes and its jobs",
		Long: "Show one pool: its GPUs by type, how busy they are where a Prometheus has DCGM's metrics of them, how much of\n" +
			"its CPU and memory pods ask for, how much is in use where the cluster has a metrics-server, its nodes and its jobs.",
		Example: "  gpuctl describe pool training-pool",
		Args:    requireOneArg(phrase.Textf("the name of one pool")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribePool(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: completePools(f),
	}
	o.prometheus.addFlags(cmd.Flags())
	o.output = describeOutput(cmd)
	return cmd
}

// readLoads reads the load of GPUs, or nil if no metrics source is configured. A failed read is only a warning: the rest is known.
func (o *prometheusOptions) readLoads(ctx context.Context, f *Factory) (*usage.Usage, error) {
	metrics, err := o.newMetrics(f)
	if err != nil || metrics == nil {
		return nil, err
	}
	client, err := f.newKubernetesClient()
	if err != nil {
		return nil, err
	}
	read, unmeasured, err := usage.Read(ctx, client, metrics)
	if err != nil {
		return nil, err
	}
	if unmeasured != nil {
		f.IO.printErr("warning: %v", unmeasured)
	}
	return &read, nil
}

// poolLoad returns the load of a pool's GPUs, or nil if no metrics source is configured.
func (o *describePoolOptions) poolLoad(ctx context.Context, name string) (*usage.Load, error) {
	read, err := o.prometheus.readLoads(ctx, o.factory)
	if err != nil || read == nil {
		return nil, err
	}
	for i := range read.Pools {
		if read.Pools[i].Name == name {
			return &read.Pools[i].Load, nil
		}
	}
	return &usage.Load{}, nil // the pool has no GPUs
}

func runDescribePool(ctx context.Context, o *describePoolOptions, name string) error {
	reader, cluster, err := o.factory.readFleet(ctx)
	if err != nil {
		return err
	}
	pool, ok := cluster.FindPool(name)
	if !ok { // the pool may have been created a moment ago
		if cluster, err = reader.FleetNow(ctx); err != nil {
			return err
		}
		pool, ok = cluster.FindPool(name)
	}
	if !ok {
		return &notFoundError{
			what: phrase.Textf("pool %q", name), near: suggestSimilarBy(name, cluster.Pools, func(p *inventory.Pool) string { return p.Name }),
		}
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{Foreign: true})
	if err != nil {
		return err
	}
	detail := poolDetail{
		Pool:     pool,
		NodeList: slices.DeleteFunc(cluster.Nodes, func(n inventory.Node) bool { return n.Pool != name }),
		Jobs:     slices.DeleteFunc(jobs, func(j inventory.Job) bool { return j.Pool != name || j.Finished != nil }),
	}
	if detail.Load, err = o.poolLoad(ctx, name); err != nil {
		return err
	}
	if detail.Use, err = o.factory.machineLoad(ctx, pool.Nodes); err != nil {
		return err
	}
	if o.output.format != "" {
		return writeEncoded(o.factory.IO.Out, o.output.format, detail)
	}
	return describePool(newDescription(o.factory.IO), detail, o.factory.Now())
}

func describePool(d *description, pool poolDetail, now time.Time) error {
	d.writeField("Name", pool.Name)
	d.writeText("Description", phrase.FromEnglish(pool.Description))
	d.writeFieldf("Nodes", "%d, %d take pods", len(pool.Nodes), pool.ReadyNodes)
	d.writeFieldf("GPUs", "%s", gpuSentence(pool.GPUs))
	if pool.SharedGPUs != nil {
		d.writeFieldf("Shared GPUs", "%s", gpuSentence(*pool.SharedGPUs))
	}
	d.writeLines("MIG", profileLines(pool.MIG, d.language))
	d.writeField("Free/all", strings.Join(poolTypes(pool.Pool), ", "))
	if pool.Load != nil {
		d.writeFieldf("Utilization", "%s", loadSentence(*pool.Load, pool.GPUs.Allocatable))
	}
	d.writeFieldf("CPU", "%s", machineSentence(pool.CPU, pool.Use.CPU, formatCores, &pool.Use, len(pool.Nodes)))
	d.writeFieldf("Memory", "%s", machineSentence(pool.Memory, pool.Use.Memory, formatGibibytes, &pool.Use, len(pool.Nodes)))
	if pool.Declared != nil {
		describeDeclared(d, pool.Declared, now)
	}
	d.limitTableWidth()
	if err := describeRows(d, "Nodes", pool.NodeList, withoutColumn("POOL", nodeColumns())); err != nil {
		return err
	}
	return describeRows(d, "Jobs", pool.Jobs, withoutColumn("POOL", jobColumns(now, true)))
}

// loadSentence describes the load of GPUs, and of how many GPUs it was measured.
func loadSentence(load usage.Load, gpus int64) phrase.Text {
	if load.Utilization == nil {
		return phrase.Textf("n/a: nothing was measured")
	}
	busy := fmt.Sprintf("%.0f%%", *load.Utilization)
	out := phrase.Textf("%s, of %d of %s", busy, load.Measured, countText(int(gpus), "GPU"))
	if load.MemoryUsedMiB != nil {
		out = out.Addf("; %s GiB of their memory are used", strconv.FormatFloat(*load.MemoryUsedMiB/1024, 'f', 0, 64))
	}
	return out
}

// machineLoad returns how much CPU and memory the nodes use.
func (f *Factory) machineLoad(ctx context.Context, nodes []string) (usage.MachineLoad, error) {
	client, err := f.newKubernetesClient()
	if err != nil {
		return usage.MachineLoad{}, err
	}
	return usage.ReadMachines(ctx, client.CoreV1().RESTClient()).LoadOf(nodes), nil
}

// machineSentence says how much of the CPU or memory of nodes is requested by pods, and how much is in use.
func machineSentence(all inventory.Capacity, used *resource.Quantity, unit func(resource.Quantity) string, load *usage.MachineLoad, nodes int) phrase.Text {
	out := phrase.Textf("%s of %s requested", unit(all.Requested), unit(all.Allocatable))
	switch {
	case used == nil:
		return out.Addf("; how much is in use is not known: ").Add(load.Message())
	case load.Measured < nodes:
		return out.Addf(", %s in use on %d of %s", unit(*used), load.Measured, countText(nodes, "node"))
	}
	return out.Addf(", %s in use", unit(*used))
}

// formatCores formats an amount of CPU in cores, to a tenth.
func formatCores(q resource.Quantity) string { return formatTenths(q.AsApproximateFloat64()) }

// formatGibibytes formats an amount of memory in GiB, to a tenth.
func formatGibibytes(q resource.Quantity) string {
	return formatTenths(q.AsApproximateFloat64()/(1<<30)) + "Gi"
}

func formatTenths(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
