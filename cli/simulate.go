package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

type simulateOptions struct {
	manifests
	output *output
}

func newSimulateCmd(f *Factory) *cobra.Command {
	o := &simulateOptions{manifests: manifests{factory: f}}
	cmd := &cobra.Command{
		Use:   "simulate -f FILE",
		Short: "Say where jobs would go if you created them now, or why they would wait",
		Long: "Say where jobs would go if you created them now: on which nodes and GPUs, and what other nodes were worth; or\n" +
			"why they would wait, and what to change. Nothing is created. All jobs of the files are placed one after the\n" +
			"other, before those that wait already; a gang is placed whole or not at all.\n\n" +
			"The API server is asked whether it would let the jobs and their pods in: quotas, limit ranges, Pod Security and\n" +
			"policies. Then the scheduler's own code decides, by its policy: the program gpu-scheduler must be beside gpuctl\n" +
			"or in the PATH. It disturbs no scheduler at work.\n\n" +
			"You must be able to list nodes, and the pods of all namespaces. What you may not create is not asked about,\n" +
			"which is said; without the right to read the scheduler's policy, the one that is shipped decides.",
		Example: "  gpuctl simulate -f train.yaml\n  gpuctl simulate -f jobs/ -o json",
		Args:    acceptFileArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSimulate(cmd.Context(), o) },
	}
	addFilesFlag(cmd, &o.files)
	addOverrideFlags(cmd, &o.overrides)
	o.output = describeOutput(cmd)
	return cmd
}

func runSimulate(ctx context.Context, o *simulateOptions) error {
	o.unsent = true
	creations, err := o.readCreations(ctx)
	if err != nil {
		return err
	}
	var jobs [][]client.Object
	for _, c := range jobCreations(creations) {
		jobs = append(jobs, c.objects)
	}
	if len(jobs) == 0 {
		return usageErrorf("there is no job in the files: gpuctl simulate says where jobs would go")
	}
	reader, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	stop := startProgress(o.factory.IO, phrase.Textf("Simulating"))
	answer, err := whatif.Simulate(ctx, reader, writer, jobs, o.factory.Now())
	stop()
	if err != nil {
		return err
	}
	if o.output.format != "" {
		return writeEncoded(o.factory.IO.Out, o.output.format, answer)
	}
	d := newDescription(o.factory.IO)
	return writeAnswer(d, &answer, o.factory.Now())
}

// writeAnswer writes the outcome of jobs for people.
func writeAnswer(d *description, answer *whatif.Answer, now time.Time) error {
	for i := range answer.Jobs {
		if i > 0 {
			fmt.Fprintln(d.out)
		}
		if err := writeJobAnswer(d, &answer.Jobs[i], now); err != nil {
			return err
		}
	}
	if len(answer.Evicted) > 0 {
		d.writeSection(phrase.Textf("Would be evicted to make room").Localize(d.language))
		fmt.Fprintln(d.out, indent+strings.Join(answer.Evicted, ", "))
	}
	for _, sentence := range answer.UncheckedTexts {
		fmt.Fprintln(d.out)
		d.writeWrapped(phrase.Textf("Note: %s", sentence).Localize(d.language), len(indent))
	}
	if answer.Policy == whatif.PolicyShipped {
		d.writeSection(phrase.Textf("By the policy that is shipped, because you may not read that of the cluster, or it has none").Localize(d.language))
	}
	return nil
}

func writeJobAnswer(d *description, job *whatif.Job, now time.Time) error {
	name := job.Kind + "/" + job.Job
	if job.Starts {
		fmt.Fprintln(d.out, phrase.Textf("%s would start now", name).Localize(d.language))
		if err := describeRows(d, phrase.Textf("Where it would be").Localize(d.language), job.Placements, placementColumns(d.language)); err != nil {
			return err
		}
		return describeScores(d, job.Records)
	}
	report := job.Report
	fmt.Fprintln(d.out, phrase.Textf("%s would wait", name).Localize(d.language)+headlineText(report, d.language))
	if len(report.Findings) > 0 {
		d.writeAdvice(report.Findings[0].AdviceIn(d.language))
	}
	if err := describeNearest(d, report); err != nil {
		return err
	}
	for _, record := range report.Records {
		if record.Last.Result == explain.Unschedulable {
			return explainRecord(d, record, now) // the other pods request the same
		}
	}
	return nil
}

// describeScores writes the scores of the best nodes for each pod that had a choice.
func describeScores(d *description, records []explain.Record) error {
	for _, record := range records {
		candidates := record.Last.Candidates
		if len(candidates) == 0 {
			continue
		}
		nodes := phrase.Textf("%d nodes", record.Last.Feasible)
		if record.Last.Feasible == 1 {
			nodes = phrase.Textf("1 node")
		}
		title := phrase.Textf("Scores for pod %s, the best of %s that could take it", record.Name, nodes)
		if err := describeRows(d, title.Localize(d.language), candidates, candidateColumns(candidates[0], d.language)); err != nil {
			return err
		}
	}
	return nil
}
