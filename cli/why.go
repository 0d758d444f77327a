package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type whyOptions struct {
	factory   *Factory
	output    *output
	scheduler schedulerOptions
	ledger    ledgerOptions
}

func newWhyCmd(f *Factory) *cobra.Command {
	o := &whyOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "why {JOB | POD}",
		Short: "Say why a job does not run, or why it runs where it does, and what to change",
		Long: "Say why a job does not run, with the numbers, and what to change so that it does. Of a job that runs, say\n" +
			"where, on which GPUs and how they are connected.\n\n" +
			"The answer comes from what you can read of the cluster. With --scheduler it has the scheduler's own records\n" +
			"too: the reasons by number of nodes at its last attempt, and the scores of the candidates by part. Of a job\n" +
			"that waits for room, the ledger knows how long those before it may run, and so when it starts.\n\n" +
			"What has to be mended first comes first, the rest under \"Also\". Of the things to do, one is enough. The exit\n" +
			"code is 0 whatever the answer is, and 3 if there is no such job.\n\n" +
			"The name of a pod of our scheduler is explained as well, also of one that gpuctl has not made.",
		Example: "  gpuctl why qwen2-sft\n  gpuctl why qwen2-sft -o json\n" +
			"  gpuctl why qwen2-sft --scheduler https://localhost:10260 --scheduler-ca ca.crt",
		Args: requireOneArg(phrase.Textf("the name of one job, or pod")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWhy(cmd.Context(), o, jobName(strings.TrimPrefix(args[0], "pod/")))
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.output = describeOutput(cmd)
	o.scheduler.addFlags(cmd.Flags())
	o.ledger.addFlags(cmd.Flags())
	return cmd
}

func runWhy(ctx context.Context, o *whyOptions, name string) error {
	if err := o.scheduler.validateAddress(); err != nil {
		return err
	}
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return err
	}
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	found, err := o.explainJobs(ctx, client, namespace, name)
	if err != nil || found {
		return err
	}
	return o.explainPod(ctx, client, inventory.NotFoundError{Namespace: namespace, Name: name})
}

// explainJobs explains the jobs of a name, and reports whether there are any.
func (o *whyOptions) explainJobs(ctx context.Context, client kubernetes.Interface, namespace, name string) (found bool, err error) {
	facts, err := diagnosis.Read(ctx, client, namespace, name, o.factory.Now())
	if err != nil || len(facts) == 0 {
		return false, err
	}
	reports := make([]diagnosis.Report, len(facts))
	for i := range facts {
		if err := o.addRecords(ctx, &facts[i]); err != nil {
			return true, err
		}
		if asked := submittedTopology(facts[i].Job.Submitted); asked != nil {
			facts[i].Job.FillSegments(int(asked.Segment), asked.Level, facts[i].Cluster.Nodes)
		}
		reports[i] = o.tryAdvice(ctx, &facts[i], diagnosis.Diagnose(facts[i]))
	}
	if o.output.format != "" {
		if len(reports) == 1 {
			return true, writeEncoded(o.factory.IO.Out, o.output.format, reports[0])
		}
		return true, writeEncoded(o.factory.IO.Out, o.output.format, list[diagnosis.Report]{Items: reports})
	}
	return true, o.printReports(ctx, namespace, reports)
}

// explainPod explains a pod whose name was given instead of a job's.
func (o *whyOptions) explainPod(ctx context.Context, client kubernetes.Interface, absent inventory.NotFoundError) error {
	pod, err := diagnosis.FindPod(ctx, client, absent.Namespace, absent.Name)
	switch {
	case err != nil:
		return err
	case pod == nil:
		return &absent
	}
	if job := diagnosis.JobNameOfPod(pod); job != "" {
		if found, err := o.explainJobs(ctx, client, pod.Namespace, job); found || err != nil {
			return err
		}
	}
	facts, err := diagnosis.ReadPod(ctx, client, pod, o.factory.Now())
	if err != nil {
		return err
	}
	report := diagnosis.DiagnosePod(*facts)
	if o.output.format != "" {
		return writeEncoded(o.factory.IO.Out, o.output.format, report)
	}
	return explainReport(newDescription(o.factory.IO), report, o.factory.Now())
}

// printReports writes diagnoses for people, and, for a waiting job, the estimated start if it is known.
func (o *whyOptions) printReports(ctx context.Context, namespace string, reports []diagnosis.Report) error {
	d := newDescription(o.factory.IO)
	for i, report := range reports {
		if i > 0 {
			fmt.Fprintln(o.factory.IO.Out)
		}
		if err := explainReport(d, report, o.factory.Now()); err != nil {
			return err
		}
		if report.Status != inventory.StatusPending {
			continue
		}
		if entry, ok := o.factory.findQueueEntry(ctx, &o.ledger, namespace, &report); ok {
			describeQueueEntry(d, entry, o.factory.Now())
		}
	}
	return nil
}
