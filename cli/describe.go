package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

func newDescribeCmd(f *Factory) *cobra.Command {
	job := &describeJobOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "describe {[job] | pool | spotpool | node | quota | namespace | reservation} NAME",
		Short: "Show all about one job, pool, SpotPool, node, quota, namespace or reservation",
		Example: "  gpuctl describe qwen2-sft\n" +
			"  gpuctl describe pool training-pool\n" +
			"  gpuctl describe node node-1 -o json",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return runDescribeJob(cmd.Context(), job, jobName(args[0])) // a word that is not a kind is the name of a job
			}
			return needCommand(cmd, args)
		},
		ValidArgsFunction: completeJobs(f),
	}
	job.output = describeOutput(cmd)
	cmd.AddCommand(newDescribeJobCmd(f), newDescribePoolCmd(f), newDescribeNodeCmd(f), newDescribeQuotaCmd(f),
		newDescribeNamespaceCmd(f), newDescribeSpotPoolCmd(f), newDescribeReservationCmd(f))
	return cmd
}

// describeOutput adds the flag -o of describe commands: text by default, or a format for programs.
func describeOutput(cmd *cobra.Command) *output {
	o := newOutput("", outputJSON, outputYAML)
	o.addTo(cmd)
	return o
}

// readFleet reads the nodes and pools, and returns the reader for further queries.
func (f *Factory) readFleet(ctx context.Context) (*inventory.Reader, inventory.Cluster, error) {
	reader, err := f.newReader()
	if err != nil {
		return nil, inventory.Cluster{}, err
	}
	cluster, err := reader.Fleet(ctx)
	return reader, cluster, err
}

// labelWidth is the column at which the values of a description begin.
const labelWidth = 13

// description writes sections of labelled lines. It omits empty values.
type description struct {
	out   io.Writer
	style tableStyle
	// width is the terminal width at which sentences are wrapped, 0 for none.
	width int
	// language is the language of labels, headings, table headers and sentences.
	language phrase.Language
}

func newDescription(streams IOStreams) *description {
	// Nothing is truncated: a description is read, not scanned.
	language := streams.outputLanguage()
	return &description{out: streams.textOut(), style: tableStyle{color: streams.Color, language: language}, width: streams.Width, language: language}
}

func (d *description) writeField(label, value string) {
	d.writeColoredField(label, escapeControls(value))
}

// writeColoredField is writeField for a value with colour codes of gpuctl. A value of several lines cannot pass for other labels.
func (d *description) writeColoredField(label, value string) {
	if value != "" {
		value = strings.ReplaceAll(value, "\n", "\n"+strings.Repeat(" ", labelWidth))
		label = phrase.Textf("%s:", d.language.Translate(label)).Localize(d.language)
		gap := strings.Repeat(" ", max(labelWidth-1-monospace.Columns(label), 0))
		fmt.Fprintf(d.out, "%s%s %s\n", label, gap, value)
	}
}

// writeFieldf is writeField for a formatted text in the language of the description.
func (d *description) writeFieldf(label, format string, args ...any) {
	d.writeField(label, phrase.Textf(format, args...).Localize(d.language))
}

// writeWrappedField is writeField for a text that is wrapped at the width of the terminal.
func (d *description) writeWrappedField(label, value string) {
	if value == "" {
		return
	}
	width := max(d.width, 0)
	if width > 0 {
		width = max(width-labelWidth, 1)
	}
	d.writeField(label, wrapLine(value, width, 0))
}

// writeText is writeWrappedField for a [phrase.Text].
func (d *description) writeText(label string, text phrase.Text) {
	d.writeWrappedField(label, text.Localize(d.language))
}

// writeLines writes a label with several values, one per line.
func (d *description) writeLines(label string, values []string) {
	if len(values) > 0 {
		d.writeField(label, strings.Join(values, "\n"))
	}
}

func (d *description) writeSection(title string) {
	fmt.Fprintf(d.out, "\n%s\n", phrase.Textf("%s:", d.language.Translate(title)).Localize(d.language))
}

// limitTableWidth limits the following tables to the width of the terminal: long lists are scanned, not read.
func (d *description) limitTableWidth() { d.style.width = max(d.width-len(indent), 0) }

// describeRows writes a section with a table, or nothing if there are no rows.
func describeRows[T any](d *description, title string, rows []T, columns []column[T]) error {
	if len(rows) == 0 {
		return nil
	}
	d.writeSection(title)
	style := d.style
	style.language = d.language
	return writeTable(&indentWriter{out: d.out}, rows, columns, style)
}

const indent = "  "

// indentWriter indents every line of a text.
type indentWriter struct{ out io.Writer }

func (w *indentWriter) Write(text []byte) (int, error) {
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	if _, err := io.WriteString(w.out, indent+strings.Join(lines, indent)+"\n"); err != nil {
		return 0, err
	}
	return len(text), nil
}
