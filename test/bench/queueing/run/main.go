// Command run replays a list of jobs under queueing policies, and says how long the jobs waited. With --page it writes the
// tables into docs/benchmarks/queueing.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/queueing"
)

const queueingLong = `Replay a trace of jobs under queueing policies, in virtual time, and say how long the jobs
waited. A job is a gang: as many pods of 8 GPUs as it needs, and one with the rest, which
start together. The cluster is nodes of 8 GPUs; nothing but GPUs counts.

The trace is the job list of Microsoft's Philly cluster (82,247 jobs, 109 days), or a CSV
file with the columns timestamp, duration, num_gpus, gpu_time and cluster, which may be
packed with gzip. No policy of these is what gpu-scheduler runs: they are what it has to
be compared with. Equal inputs give equal results.

Policies:
`

const queueingExample = `  # All policies on 80 nodes
  go run ./test/bench/queueing/run

  # How much do large jobs wait for a reservation, and how much of that is chance?
  go run ./test/bench/queueing/run --nodes 64,80,96 --policy backfill,easy-nodes --ties 10

  # How true are the intervals in which jobs are said to start?
  go run ./test/bench/queueing/run --intervals 25 --policy backfill

  # Your own jobs, as JSON
  go run ./test/bench/queueing/run --trace jobs.csv --nodes 12 -o json`

// queueingReplay is what the user asks for.
type queueingReplay struct {
	study                          queueing.Study
	policies                       []string
	trace, reference, output, page string
	every                          int
	out                            io.Writer
}

func main() {
	if err := newCommand().ExecuteContext(context.Background()); err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	q := &queueingReplay{}
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Replay a trace of jobs under queueing policies",
		Long:    queueingLong + policyList(),
		Example: queueingExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage, q.out = true, cmd.OutOrStdout()
			return q.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.trace, "trace", "", "Jobs as CSV (default is Philly's)")
	flags.IntSliceVar(&q.study.Nodes, "nodes", []int{80}, "Sizes of the cluster, in nodes of 8 GPUs")
	flags.IntVar(&q.study.Racks, "racks", 4, "Racks that the nodes are in")
	flags.StringSliceVar(&q.policies, "policy", nil, "Policies to replay (default is all but those that learn)")
	flags.IntVar(&q.study.Ties, "ties", 0, "Replay so many times more, with chance choosing between equal nodes")
	flags.StringVar(&q.reference, "reference", "", "Figures to compare with: CSV of nodes, policy, figure, value")
	flags.StringVarP(&q.output, "output", "o", "table", "Output: table, markdown or json")
	flags.StringVar(&q.page, "page", "", "Write the tables into this page, between its marks, in place of an output")
	flags.IntVar(&q.every, "intervals", 0, "Ask of each so-manieth job that waits when it starts, and say how many of the answers held")
	return cmd
}

func policyList() string {
	var list bytes.Buffer
	for _, policy := range slices.Concat(queueing.Policies, queueing.Learners) {
		fmt.Fprintf(&list, "  %-14s%s\n", policy.Name, policy.About)
	}
	return list.String()
}

func (q *queueingReplay) run(ctx context.Context) error {
	write, err := q.writer()
	if err != nil {
		return err
	}
	if q.study.Policies, err = queueing.Select(q.policies); err != nil {
		return fmt.Errorf("reading --policy: %w", err)
	}
	theirs, err := q.figures()
	if err != nil {
		return err
	}
	jobs, err := q.jobs()
	if err != nil {
		return err
	}
	if q.every > 0 {
		return q.calibrate(ctx, jobs)
	}
	reports, err := q.study.Run(ctx, jobs)
	if err != nil {
		return err
	}
	if q.page != "" && q.learning() {
		return writePage(q.page, learntBegin, learntEnd, queueing.Tables(reports, theirs))
	}
	if q.page != "" {
		return writePage(q.page, tablesBegin, tablesEnd, queueing.Tables(reports, theirs))
	}
	return write(reports, theirs)
}

// The marks between which a page has the tables.
const (
	tablesBegin = "<!-- tables of make bench-queueing -->\n"
	tablesEnd   = "<!-- end of the tables -->\n"
	learntBegin = "<!-- tables of make bench-queueing-learnt -->\n"
	learntEnd   = "<!-- end of what is learnt -->\n"
)

// learning says whether a policy that learns is replayed: a page has a place of its own for them.
func (q *queueingReplay) learning() bool {
	return slices.ContainsFunc(q.study.Policies, func(policy queueing.Named) bool {
		return slices.ContainsFunc(queueing.Learners, func(learner queueing.Named) bool { return learner.Name == policy.Name })
	})
}

// writePage replaces the tables of a page between two marks.
func writePage(path, begin, end string, tables []queueing.Table) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(page, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		return fmt.Errorf("%s has no marks to write the tables between: %q and %q", path, begin, end)
	}
	out := bytes.NewBuffer(slices.Concat(before, []byte(begin), []byte("\n")))
	for _, table := range tables {
		if err := table.WriteMarkdown(out); err != nil {
			return err
		}
	}
	out.WriteString(end)
	out.Write(after)
	return os.WriteFile(path, out.Bytes(), 0o644) //nolint:gosec // a page of the documentation
}

// writer writes a report in the form that was asked for.
func (q *queueingReplay) writer() (func([]queueing.Report, []queueing.Figure) error, error) {
	switch q.output {
	case "table":
		return q.writeTables(queueing.Table.WriteText), nil
	case "markdown":
		return q.writeTables(queueing.Table.WriteMarkdown), nil
	case "json":
		return q.writeJSON, nil
	}
	return nil, fmt.Errorf("--output is %q, want table, markdown or json", q.output)
}

func (q *queueingReplay) writeTables(write func(queueing.Table, io.Writer) error) func([]queueing.Report, []queueing.Figure) error {
	return func(reports []queueing.Report, theirs []queueing.Figure) error {
		for _, table := range queueing.Tables(reports, theirs) {
			if err := write(table, q.out); err != nil {
				return err
			}
		}
		return nil
	}
}

// writeJSON leaves the figures of others out: who reads JSON has them.
func (q *queueingReplay) writeJSON(reports []queueing.Report, _ []queueing.Figure) error {
	encoder := json.NewEncoder(q.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(reports)
}

func (q *queueingReplay) jobs() ([]*trace.Job, error) {
	if q.trace == "" {
		return queueing.Philly()
	}
	data, err := trace.Read(q.trace)
	if err != nil {
		return nil, fmt.Errorf("reading --trace: %w", err)
	}
	jobs, err := trace.ReadJobs(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.trace, err)
	}
	return jobs, nil
}

func (q *queueingReplay) figures() ([]queueing.Figure, error) {
	if q.reference == "" {
		return nil, nil
	}
	data, err := trace.Read(q.reference)
	if err != nil {
		return nil, fmt.Errorf("reading --reference: %w", err)
	}
	figures, err := queueing.ReadFigures(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.reference, err)
	}
	return figures, nil
}
