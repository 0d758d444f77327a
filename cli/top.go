package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/usage"
)

func newTopCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top {nodes | gpus | jobs | pools}",
		Short: "Show who holds which GPUs, and how busy they are",
		Long: "Show who holds which GPUs, and how busy they are.\n\n" +
			"What is held comes from Kubernetes. How busy a GPU is comes from a Prometheus that scrapes NVIDIA's DCGM\n" +
			"exporter, where one is known: --prometheus, else $GPUCTL_PROMETHEUS, else \"prometheus:\" in\n" +
			"gpuctl/config.yaml of the user's configuration directory. What was not measured is n/a.\n\n" +
			"Each character of CARDS is a GPU, in the order of their numbers:\n" +
			"  # held by one pod   + shared by pods   . free   x unhealthy\n" +
			"  ? held, by a pod that does not name its GPU\n" +
			"GPUs in MIG mode are in no number of GPUs: their slices are counted by themselves.",
		Example: "  gpuctl top nodes --sort free\n" +
			"  gpuctl top gpus --prometheus http://prometheus:9090\n" +
			"  gpuctl top jobs -A --sort util --prometheus monitoring/prometheus-k8s:9090\n" +
			"  gpuctl top pools -w",
		Args: cobra.ArbitraryArgs,
		RunE: needCommand,
	}
	cmd.AddCommand(newTopNodesCmd(f), newTopGPUsCmd(f), newTopJobsCmd(f), newTopPoolsCmd(f))
	return cmd
}

// ordering is one way to sort rows: -1, 0 or 1, as cmp.Compare.
type ordering[T any] struct {
	name string
	less func(a, b T) int
}

// topView is one of the tables of top.
type topView[T any] struct {
	factory    *Factory
	prometheus prometheusOptions
	columns    []column[T]
	orderings  []ordering[T]
	// read returns the rows, and the total if there is one.
	read func(context.Context, kubernetes.Interface, usage.Metrics) (topRows[T], error)

	output    *output
	noHeaders bool
	watch     bool
	sort      string
	// pool limits the rows to one pool, "" for all.
	pool string
}

// topRows is what a table of top shows. JSON keys are a contract.
type topRows[T any] struct {
	Items []T          `json:"items"`
	Total *usage.Total `json:"total,omitempty"`

	unmeasured error
	// note is printed below the table.
	note phrase.Text
}

// topPoll is the interval between two reads of a watched table. Exporters are scraped less often.
const topPoll = 5 * time.Second

func (v *topView[T]) addFlags(cmd *cobra.Command) {
	orders := make([]string, len(v.orderings))
	for i, order := range v.orderings {
		orders[i] = order.name
	}
	v.output = newOutput(outputTable, outputWide, outputJSON, outputYAML, outputCSV)
	v.output.addTo(cmd)
	v.prometheus.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&v.noHeaders, "no-headers", false, "Leave out the table's headers, and the total")
	cmd.Flags().BoolVarP(&v.watch, "watch", "w", false, "Show it again every 5 seconds, until interrupted")
	cmd.Flags().StringVar(&v.sort, "sort", orders[0], "Order of the rows: "+strings.Join(orders, ", "))
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return v.runView(cmd.Context(), orders) }
}

func (v *topView[T]) runView(ctx context.Context, orders []string) error {
	order := slices.Index(orders, v.sort)
	if order < 0 {
		return usageErrorf("unknown order %q%s: want one of %s", v.sort, spelling.DidYouMean(v.sort, orders), strings.Join(orders, ", "))
	}
	metrics, err := v.prometheus.newMetrics(v.factory)
	if err != nil {
		return err
	}
	client, err := v.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	told := ""
	once := func(ctx context.Context) error {
		rows, err := v.read(ctx, client, metrics)
		if err != nil {
			return err
		}
		if rows.unmeasured != nil && rows.unmeasured.Error() != told {
			told = rows.unmeasured.Error()
			v.factory.IO.printErr("warning: %v", rows.unmeasured)
		}
		if len(rows.Items) == 0 {
			if err := v.factory.checkPoolExists(ctx, v.pool); err != nil {
				return err
			}
		}
		slices.SortStableFunc(rows.Items, v.orderings[order].less)
		return v.printRows(rows)
	}
	if err := once(ctx); err != nil || !v.watch {
		return err
	}
	return runWatch(ctx, func(ctx context.Context, _ context.CancelCauseFunc) error {
		return pollUntilDone(ctx, topPoll, func() error { return v.redrawTable(ctx, once) })
	})
}

// clearScreen moves to the top left and wipes the terminal.
const clearScreen = "\x1b[H\x1b[2J"

// redrawTable redraws the table: in place on a terminal, below a blank line elsewhere.
func (v *topView[T]) redrawTable(ctx context.Context, once func(context.Context) error) error {
	separator := "\n"
	if v.factory.IO.OutIsTerminal {
		separator = clearScreen
	}
	if v.output.format == outputTable || v.output.format == outputWide {
		fmt.Fprint(rawOutput(v.factory.IO.Out), separator)
	}
	return once(ctx)
}

func (v *topView[T]) printRows(rows topRows[T]) error {
	io := v.factory.IO
	if v.output.format == outputJSON || v.output.format == outputYAML {
		rows.Items = append([]T{}, rows.Items...)
		return writeEncoded(io.Out, v.output.format, rows)
	}
	if v.output.format == outputCSV {
		return writeCSV(io.Out, rows.Items, v.columns, !v.noHeaders)
	}
	style := tableStyle{wide: v.output.format == outputWide, noHeaders: v.noHeaders, color: io.Color, width: io.Width, language: io.outputLanguage()}
	if style.wide {
		style.width = 0
	}
	if len(rows.Items) == 0 {
		io.printErr("No GPUs are there, or none are held.")
		return nil
	}
	if err := writeTable(io.Out, rows.Items, v.columns, style); err != nil {
		return err
	}
	if rows.Total != nil && !v.noHeaders {
		io.printOut("%s", totalLine(*rows.Total))
	}
	if len(rows.note) > 0 && !v.noHeaders {
		io.printOut("%s", rows.note)
	}
	return nil
}

// totalLine sums up the cluster.
func totalLine(total usage.Total) phrase.Text {
	share := 0.0
	if total.GPUs > 0 {
		share = 100 * float64(total.Used) / float64(total.GPUs)
	}
	text := phrase.Textf("Cluster: %d of %d GPUs on %d nodes are held (%s), %d are free, utilization %s",
		total.Used, total.GPUs, total.Nodes, roundedPercent(share), total.Free, utilizationText(total.Load, total.GPUs))
	if len(total.MIG) > 0 {
		text = text.Addf("\nMIG slices held: %s", migHeld(total.MIG))
	}
	return text
}

// utilizationText formats a percentage, with the number of measured GPUs if not all were measured.
func utilizationText(load usage.Load, gpus int64) phrase.Text {
	switch {
	case load.Utilization == nil:
		return phrase.Quote("n/a")
	case int64(load.Measured) < gpus:
		return phrase.Textf("%s of %d", roundedPercent(*load.Utilization), load.Measured)
	}
	return phrase.Quote(roundedPercent(*load.Utilization))
}

// roundedPercent formats a percentage as a whole number.
func roundedPercent(v float64) string { return fmt.Sprintf("%.0f%%", v) }

// memoryUsed formats the used memory in GiB.
func memoryUsed(load usage.Load) string {
	if load.MemoryUsedMiB == nil {
		return "n/a"
	}
	return fmt.Sprintf("%.1fGi", *load.MemoryUsedMiB/1024)
}
