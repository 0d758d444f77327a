package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

func newGetCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get {jobs|pools|nodes|quotas|reservations|...} [NAME]...",
		Short: "List jobs, pools, SpotPools, nodes, labels, quotas, presets or reservations",
		Long: "List jobs, pools, SpotPools, nodes, labels of nodes, quotas, GPUQuotas, namespaces, presets of jobs or reservations.\n\n" +
			"A table has headers in a pipe too, as kubectl's; --no-headers drops them. -o json and -o yaml give\n" +
			"{items: [...]}, or the one thing itself when exactly one was named.",
		Example: "  gpuctl get jobs --pool training-pool\n" +
			"  gpuctl get job qwen2-sft -o yaml\n" +
			"  gpuctl get nodes --gpu-type A100-80G -o wide\n" +
			"  gpuctl get jobs -w",
		Args: cobra.ArbitraryArgs,
		RunE: needCommand,
	}
	cmd.AddCommand(newGetJobsCmd(f), newGetPoolsCmd(f), newGetNodesCmd(f), newGetLabelsCmd(f), newGetQuotasCmd(f), newGetGPUQuotasCmd(f),
		newGetNamespacesCmd(f), newGetSpotPoolsCmd(f), newGetPresetsCmd(f), newGetReservationsCmd(f))
	return cmd
}

// listing is the common part of all get commands: which rows of type T to show, and how.
type listing[T any] struct {
	io      IOStreams
	now     func() time.Time
	noun    string
	columns func(now time.Time) []column[T]
	// name is the row's name for -o name and for arguments; id identifies the row.
	name func(T) string
	id   func(T) string
	// print is how -o name writes a row.
	print func(T) string
	// quiet rows appear and disappear without a message; a name without rows is not an error.
	quiet bool

	output    *output
	noHeaders bool
	sortBy    string
	watch     bool
	names     []string
	// pool limits the rows to one pool.
	pool string
	// absenceChecks checks the objects that limit the rows if there are no rows: each returns an error if its object does not exist.
	absenceChecks []func() error
	// gone is the message for a watched row that has disappeared.
	gone phrase.Text
	// sticky is the table's columns so far.
	sticky stickyColumns
}

func (l *listing[T]) addFlags(cmd *cobra.Command) {
	l.addListFlags(cmd)
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "After listing, print what changes until interrupted")
}

// addListFlags adds the flags of a list that cannot be watched.
func (l *listing[T]) addListFlags(cmd *cobra.Command) {
	l.output = newOutput(outputTable, outputWide, outputJSON, outputYAML, outputName, outputCSV,
		outputJSONPath+"=", outputCustomColumns+"=")
	l.output.addTo(cmd)
	cmd.Flags().StringVar(&l.sortBy, "sort-by", "", "Sort by this field of -o json, such as gpus or created")
	cmd.Flags().BoolVar(&l.noHeaders, "no-headers", false, "Leave out the table's headers")
}

// printNamed prints the rows that the arguments name, or all. A name without a row is an error, reported after the other rows are printed.
func (l *listing[T]) printNamed(rows []T) error {
	known := make([]string, len(rows))
	for i, row := range rows {
		known[i] = l.name(row)
	}
	rows, missing := l.pickNamed(rows)
	if l.sortBy != "" {
		var err error
		if rows, err = sortBy(rows, l.sortBy); err != nil {
			return err
		}
	}
	if err := l.writeRows(rows, true); err != nil {
		return err
	}
	if len(missing) > 0 && !l.quiet {
		return &notFoundError{what: phrase.Textf("%s %s", lookupNoun(l.noun).one, quoteNames(missing)), near: suggestSimilar(missing[0], known)}
	}
	if len(rows) > 0 {
		return nil
	}
	for _, absent := range l.absenceChecks {
		if err := absent(); err != nil {
			return err
		}
	}
	l.io.printErr("No %s found.", lookupNoun(l.noun).many)
	return nil
}

// addPoolFlag adds the flag that limits the rows to a pool.
func (l *listing[T]) addPoolFlag(cmd *cobra.Command, f *Factory, usage string) {
	cmd.Flags().StringVar(&l.pool, "pool", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	l.absenceChecks = append(l.absenceChecks, func() error { return f.checkPoolExists(cmd.Context(), l.pool) })
}

// addNamespaceFlag adds the flag for all namespaces. Without the flag the selected namespace must exist.
func (l *listing[T]) addNamespaceFlag(cmd *cobra.Command, f *Factory, all *bool, usage string) {
	cmd.Flags().BoolVarP(all, "all-namespaces", "A", false, usage)
	l.absenceChecks = append(l.absenceChecks, func() error {
		if *all {
			return nil
		}
		return f.checkNamespaceExists(cmd.Context())
	})
}

// goneText returns the message for a watched row that has disappeared.
func (l *listing[T]) goneText() phrase.Text {
	if len(l.gone) > 0 {
		return l.gone
	}
	return phrase.Textf("is gone")
}

// pickNamed returns the named rows, and the names without a row.
func (l *listing[T]) pickNamed(rows []T) (picked []T, missing []string) {
	if len(l.names) == 0 {
		return rows, nil
	}
	for _, name := range l.names {
		if !slices.ContainsFunc(rows, func(row T) bool { return l.name(row) == name }) {
			missing = append(missing, name)
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row T) bool { return !slices.Contains(l.names, l.name(row)) }), missing
}

// outputValue is what -o json shows of the rows: a list, or the one row that was named.
func (l *listing[T]) outputValue(rows []T) any {
	if len(l.names) == 1 && len(rows) == 1 && !l.quiet {
		return rows[0]
	}
	return list[T]{Items: append([]T{}, rows...)}
}

func (l *listing[T]) writeRows(rows []T, headers bool) error {
	switch l.output.format {
	case outputJSON, outputYAML:
		return writeEncoded(l.io.Out, l.output.format, l.outputValue(rows))
	case outputJSONPath:
		return writeJSONPath(l.io.Out, l.output.template, l.outputValue(rows))
	case outputCustomColumns:
		return l.writeCustom(rows, headers)
	case outputCSV:
		return writeCSV(l.io.Out, rows, l.columns(l.now()), !l.noHeaders && headers)
	case outputName:
		for _, row := range rows {
			fmt.Fprintln(l.io.Out, l.print(row))
		}
		return nil
	}
	if len(rows) == 0 {
		return nil
	}
	return writeTable(l.io.Out, rows, l.columns(l.now()), l.newTableStyle(headers))
}

// writeCustom writes the columns that the user selected.
func (l *listing[T]) writeCustom(rows []T, headers bool) error {
	columns, err := customColumns(l.output.template)
	if err != nil {
		return err
	}
	trees, err := rowTrees(rows)
	if err != nil {
		return err
	}
	return writeTable(l.io.Out, trees, columns, l.newTableStyle(headers))
}

func (l *listing[T]) newTableStyle(headers bool) tableStyle {
	style := tableStyle{
		wide:      l.output.format == outputWide,
		noHeaders: l.noHeaders || !headers,
		color:     l.io.Color,
		width:     l.io.Width,
		sticky:    &l.sticky,
		language:  l.io.outputLanguage(),
	}
	if style.wide || l.output.format == outputCustomColumns {
		style.width = 0
	}
	if l.output.format == outputCustomColumns {
		style.language = phrase.English // the headers come from the user
	}
	return style
}

// runListing shows the rows that read returns, or, with --watch, those that watch reports until interrupted.
func (l *listing[T]) runListing(
	ctx context.Context, read func(context.Context) ([]T, error), watch func(context.Context, func([]T)) error,
) error {
	if !l.watch {
		rows, err := read(ctx)
		if err != nil {
			return err
		}
		return l.printNamed(rows)
	}
	return runWatch(ctx, func(ctx context.Context, cancel context.CancelCauseFunc) error {
		return watch(ctx, l.newChangePrinter(ctx, cancel))
	})
}

// runFleet shows rows computed from the cluster's nodes and pools.
func (l *listing[T]) runFleet(ctx context.Context, f *Factory, rows func(inventory.Cluster) []T) error {
	reader, err := f.newReader()
	if err != nil {
		return err
	}
	read := func(ctx context.Context) ([]T, error) {
		cluster, err := reader.Fleet(ctx)
		return rows(cluster), err
	}
	return l.runListing(ctx, read, func(ctx context.Context, report func([]T)) error {
		return f.watchWithHeartbeat(ctx, func(ctx context.Context, reader *inventory.Reader) error {
			return reader.WatchFleet(ctx, func(c inventory.Cluster) { report(rows(c)) })
		})
	})
}

// newChangePrinter returns a function that prints new and changed rows on each call; a row that disappeared is reported on stderr.
func (l *listing[T]) newChangePrinter(ctx context.Context, cancel context.CancelCauseFunc) func([]T) {
	seen := map[string]string{}
	first := true
	return func(rows []T) {
		rows, _ = l.pickNamed(rows)
		var changed []T
		left := map[string]string{}
		for _, row := range rows {
			text := l.rowFingerprint(row)
			left[l.id(row)] = text
			if seen[l.id(row)] != text {
				changed = append(changed, row)
			}
		}
		for id := range seen {
			if _, ok := left[id]; !ok && !l.quiet {
				l.io.printErr("%s %s", id, l.goneText())
			}
		}
		seen = left
		if err := l.streamRows(changed, first); err != nil && ctx.Err() == nil {
			cancel(err)
		}
		first = first && len(changed) == 0
	}
}

// rowFingerprint changes when the visible row changes, except for ages.
func (l *listing[T]) rowFingerprint(row T) string {
	var text strings.Builder
	for _, c := range l.columns(time.Time{}) {
		text.WriteString(c.plainValue(row) + "\x00")
	}
	return text.String()
}

// streamRows writes watched rows: one line per row in JSON, one document per row in YAML.
func (l *listing[T]) streamRows(rows []T, headers bool) error {
	switch l.output.format {
	case outputJSON:
		for _, row := range rows {
			if err := json.NewEncoder(l.io.Out).Encode(row); err != nil {
				return err
			}
		}
		return nil
	case outputYAML:
		for _, row := range rows {
			fmt.Fprintln(l.io.Out, "---")
			if err := writeEncoded(l.io.Out, outputYAML, row); err != nil {
				return err
			}
		}
		return nil
	}
	return l.writeRows(rows, headers)
}

func quoteNames(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(out, ", ")
}
