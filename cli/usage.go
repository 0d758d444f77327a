package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type usageOptions struct {
	factory       *Factory
	ledger        ledgerOptions
	by            string
	since, until  string
	user, pool    string
	allNamespaces bool
	noHeaders     bool
	output        *output
}

func newUsageCmd(f *Factory) *cobra.Command {
	o := &usageOptions{factory: f, output: newOutput(outputTable, outputJSON, outputYAML, outputCSV)}
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show who held how many GPU-hours, from the ledger",
		Long: "Show who held how many GPU-hours, from the ledger.\n\n" +
			"A pod holds its GPUs from its binding to its end, whether it uses them or not; a part of a shared GPU counts\n" +
			"as its part of the memory. UNCERTAIN is what may have been held beyond that: nobody saw when it ended.\n" +
			"UTIL is how busy the GPUs were on average, and MEASURED of how much of the GPU-hours that is known.\n\n" +
			"The ledger is at --ledger, else $GPUCTL_LEDGER, else at \"ledger:\" of gpuctl/config.yaml of the user's\n" +
			"configuration directory, else where the cluster says it is; none asks no ledger. It tells you about the\n" +
			"namespaces of which you may list the pods.",
		Example: "  gpuctl usage --by user --since 30d\n" +
			"  gpuctl usage -A --by namespace,gpu-type --since 2026-10-01 --until 2026-11-01 -o csv\n" +
			"  gpuctl usage --by job --user ada",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUsage(cmd.Context(), o) },
	}
	keys := make([]string, len(ledger.Keys))
	for i, key := range ledger.Keys {
		keys[i] = string(key)
	}
	flags := cmd.Flags()
	flags.StringVar(&o.by, "by", string(ledger.ByUser), "What to sum by, one or several with commas: "+strings.Join(keys, ", "))
	flags.StringVar(&o.since, "since", "30d", "From when on: how long ago, such as 30d or 12h, a day or a time")
	flags.StringVar(&o.until, "until", "", "Until when; now without it")
	flags.StringVar(&o.user, "user", "", "Only what jobs of this user held")
	flags.StringVar(&o.pool, "pool", "", "Only what was held in this pool")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Of all namespaces")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "Leave out the table's headers, and the total")
	o.ledger.addFlags(flags)
	o.output.addTo(cmd)
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(keys, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	return cmd
}

func runUsage(ctx context.Context, o *usageOptions) error {
	query, err := o.ledgerQuery()
	if err != nil {
		return err
	}
	client, err := o.ledger.newClient(ctx, o.factory)
	if err != nil {
		return err
	}
	usage, err := client.Usage(ctx, query)
	if err != nil {
		return err
	}
	return o.printUsage(usage, query.By)
}

func (o *usageOptions) ledgerQuery() (ledgerclient.Query, error) {
	keys, err := ledger.ParseKeys(o.by)
	if err != nil {
		return ledgerclient.Query{}, usageErrorf("--by: %w", err)
	}
	out := ledgerclient.Query{By: keys, User: o.user, Pool: o.pool}
	if out.Since, err = parseMoment("since", o.since, o.factory.Now()); err != nil {
		return out, err
	}
	if o.until != "" {
		if out.Until, err = parseMoment("until", o.until, o.factory.Now()); err != nil {
			return out, err
		}
	}
	if !o.allNamespaces {
		namespace, err := o.factory.currentNamespace()
		if err != nil {
			return out, err
		}
		out.Namespaces = []string{namespace}
	}
	return out, nil
}

func (o *usageOptions) printUsage(usage ledger.Usage, keys []ledger.Key) error {
	io := o.factory.IO
	if o.output.format == outputJSON || o.output.format == outputYAML {
		return writeEncoded(io.Out, o.output.format, usage)
	}
	rows := slices.Clone(usage.Items)
	if usage.Rest != nil {
		rest := *usage.Rest
		rest.Keys = map[ledger.Key]string{keys[0]: restOfAll}
		rows = append(rows, rest)
	}
	printLedgerGaps(io, usage.Begin, usage.Gaps)
	if o.output.format == outputCSV {
		return writeCSV(io.Out, rows, append(usageColumns(keys, true), efficiencyColumns(sumEfficiency, true)...), !o.noHeaders)
	}
	if len(rows) == 0 {
		io.printErr("Nothing held a GPU in that time, of what was asked for. Ask for more with --since or -A.")
		return nil
	}
	uncertain := slices.ContainsFunc(rows, func(s ledger.Sum) bool { return s.UncertainGPUHours > 0 })
	columns := usageColumns(keys, uncertain)
	if slices.ContainsFunc(rows, func(s ledger.Sum) bool { return s.Efficiency != nil }) {
		columns = append(columns, efficiencyColumns(sumEfficiency, false)...)
	}
	if len(rows) > 1 && !o.noHeaders {
		rows = append(rows, totalRow(rows, keys[0]))
	}
	return writeTable(io.Out, rows, columns, tableStyle{
		noHeaders: o.noHeaders, color: io.Color, width: io.Width, language: io.outputLanguage(),
	})
}

func sumEfficiency(s ledger.Sum) *ledger.Efficiency { return s.Efficiency }

func totalRow(rows []ledger.Sum, key ledger.Key) ledger.Sum {
	out := ledger.Sum{Keys: map[ledger.Key]string{key: totalOfAll}}
	var busy ledger.EfficiencySum
	for _, row := range rows {
		out.GPUHours, out.UncertainGPUHours = out.GPUHours+row.GPUHours, out.UncertainGPUHours+row.UncertainGPUHours
		out.Pods, out.Running = out.Pods+row.Pods, out.Running+row.Running
		busy.AddKnown(row.GPUHours, row.Efficiency)
	}
	out.Efficiency = busy.Efficiency()
	return out
}

// restOfAll and totalOfAll stand in place of a key for rows that sum up several keys.
const (
	restOfAll  = "(all others)"
	totalOfAll = "TOTAL"
)

// keyText returns the text of a key. A user whose name equals one of the constants is translated like them.
func keyText(value string) phrase.Text {
	switch value {
	case restOfAll:
		return phrase.Textf("(all others)")
	case totalOfAll:
		return phrase.Textf("TOTAL")
	}
	return phrase.Quote(value)
}

func usageColumns(keys []ledger.Key, uncertain bool) []column[ledger.Sum] {
	var out []column[ledger.Sum]
	for _, key := range keys {
		out = append(out, column[ledger.Sum]{header: strings.ToUpper(string(key)), text: func(s ledger.Sum) phrase.Text { return keyText(s.Keys[key]) }})
	}
	hours := func(header string, of func(ledger.Sum) float64) column[ledger.Sum] {
		return column[ledger.Sum]{header: header, value: func(s ledger.Sum) string { return strconv.FormatFloat(of(s), 'f', 2, 64) }}
	}
	out = append(out, hours(markWord("GPU-HOURS"), func(s ledger.Sum) float64 { return s.GPUHours }))
	if uncertain {
		out = append(out, hours(markWord("UNCERTAIN"), func(s ledger.Sum) float64 { return s.UncertainGPUHours }))
	}
	return append(out,
		column[ledger.Sum]{header: "PODS", value: func(s ledger.Sum) string { return strconv.Itoa(s.Pods) }},
		column[ledger.Sum]{header: "RUNNING", value: func(s ledger.Sum) string { return strconv.Itoa(s.Running) }})
}
