package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

type describePoolOptions struct {
	factory *Factory
	output  *output
}

// poolDetail is a pool with its nodes, and the jobs that are in it.
type poolDetail struct {
	inventory.Pool
	NodeList []inventory.Node `json:"nodeList"`
	Jobs     []inventory.Job  `json:"jobs"`
}

func newDescribePoolCmd(f *Factory) *cobra.Command {
	o := &describePoolOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "pool NAME",
		Aliases: []string{"pools"},
		Short:   "Show one pool: its GPUs by type, its nodes and its jobs",
		Example: "  gpuctl describe pool training-pool",
		Args:    exactlyOne("the name of one pool"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribePool(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: completePools(f),
	}
	o.output = describeOutput(cmd)
	return cmd
}

func runDescribePool(ctx context.Context, o *describePoolOptions, name string) error {
	reader, cluster, err := o.factory.fleet(ctx)
	if err != nil {
		return err
	}
	pool, ok := cluster.Pool(name)
	if !ok {
		return &notFoundError{
			what: fmt.Sprintf("pool %q", name), near: meantBy(name, cluster.Pools, func(p *inventory.Pool) string { return p.Name }),
		}
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{})
	if err != nil {
		return err
	}
	detail := poolDetail{
		Pool:     pool,
		NodeList: slices.DeleteFunc(cluster.Nodes, func(n inventory.Node) bool { return n.Pool != name }),
		Jobs:     slices.DeleteFunc(jobs, func(j inventory.Job) bool { return j.Pool != name || j.Finished != nil }),
	}
	if o.output.format != "" {
		return encode(o.factory.IO.Out, o.output.format, detail)
	}
	return describePool(newDescription(o.factory.IO), detail, o.factory.Now())
}

func describePool(d *description, pool poolDetail, now time.Time) error {
	d.line("Name", pool.Name)
	d.line("Nodes", fmt.Sprintf("%d, %d take pods", len(pool.Nodes), pool.ReadyNodes))
	d.line("GPUs", gpuSentence(pool.GPUs))
	if pool.SharedGPUs != nil {
		d.line("Shared GPUs", gpuSentence(*pool.SharedGPUs))
	}
	d.line("Free/all", strings.Join(poolTypes(pool.Pool), ", "))
	if err := describeRows(d, "Nodes", pool.NodeList, nodeColumns()); err != nil {
		return err
	}
	return describeRows(d, "Jobs", pool.Jobs, jobColumns(now, true))
}
