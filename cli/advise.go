package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

func newAdviseCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Say what would make better use of the GPUs",
		RunE:  needCommand,
	}
	cmd.AddCommand(newAdviseDefragCmd(f))
	return cmd
}

type adviseDefragOptions struct {
	factory *Factory
	output  *output
	pool    string
	limits  defrag.Limits
	apply   bool
	timeout time.Duration
}

func newAdviseDefragCmd(f *Factory) *cobra.Command {
	o := &adviseDefragOptions{factory: f, output: newOutput("", outputJSON, outputYAML), limits: defrag.DefaultLimits}
	cmd := &cobra.Command{
		Use:   "defrag",
		Short: "Find the fewest moves of running pods that let waiting jobs start",
		Long: "Find the fewest moves of running pods that let waiting jobs start: GPUs that are free one here and\n" +
			"two there serve nobody who needs eight on one node. Nothing is changed without --apply.\n\n" +
			"A move is an eviction: the pod ends, and its controller starts a new one on another node. Never\n" +
			"moved are pods that nothing would start again, members of gangs, pods of a higher priority than the\n" +
			"one that waits, pods of another scheduler, pods whose disruption budget allows none, pods with\n" +
			"claimed volumes, and pods that carry cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\".\n\n" +
			"--apply makes the moves, one at a time: the node is closed by the taint " + names.TaintMoving + ", the pod\n" +
			"that moves is evicted, and the next step waits until its controller has a pod on another node. In\n" +
			"the end the waiting pod is nominated for the node, and the node is opened. It ends with the first\n" +
			"step that fails, and makes a new plan when the cluster has changed meanwhile.\n\n" +
			"You must be able to read the nodes, and the pods and disruption budgets of all namespaces; for\n" +
			"--apply, to evict pods, and to change their status and the taints of nodes as well.",
		Example: "  gpuctl advise defrag\n  gpuctl advise defrag --pool training-pool --max-moves 8\n" +
			"  gpuctl advise defrag --min-run 1h -o json\n  gpuctl advise defrag --apply",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAdviseDefrag(cmd.Context(), o) },
	}
	o.output.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.pool, "pool", "", "Only for jobs that wait for this pool")
	flags.IntVar(&o.limits.Moves, "max-moves", o.limits.Moves, "The most pods to move for one that waits")
	flags.DurationVar(&o.limits.MinRun, "min-run", o.limits.MinRun, "Move no pod that has run for less")
	flags.BoolVar(&o.apply, "apply", false, "Make the moves")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "With --apply: how long one step may take")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	return cmd
}

func runAdviseDefrag(ctx context.Context, o *adviseDefragOptions) error {
	if o.apply && o.output.format != "" {
		return usageErrorf("--apply prints its steps, want no -o")
	}
	if o.limits.Moves < 1 || o.limits.MinRun < 0 {
		return usageErrorf("--max-moves is %d and --min-run is %s, want at least one move and no negative time", o.limits.Moves, o.limits.MinRun)
	}
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	carrier := &defrag.Carrier{
		Client: client, StepTimeout: o.timeout, Now: o.factory.Now, Report: func(text phrase.Text) { o.factory.IO.printOut("%s", text) },
	}
	if o.apply {
		if err := carrier.OpenNodes(ctx); err != nil {
			return err
		}
	}
	advice, err := o.makePlan(ctx, client)
	if err != nil {
		return err
	}
	if o.output.format != "" {
		return writeEncoded(o.factory.IO.Out, o.output.format, advice)
	}
	if err := o.printAdvice(o.factory.IO, advice); err != nil {
		return err
	}
	if !o.apply {
		return nil
	}
	return o.applyAdvice(ctx, carrier, advice)
}

// makePlan makes an advice for the cluster as it is now.
func (o *adviseDefragOptions) makePlan(ctx context.Context, client kubernetes.Interface) (defrag.Advice, error) {
	facts, err := defrag.Read(ctx, client, o.factory.Now())
	if err != nil {
		return defrag.Advice{}, err
	}
	if o.pool != "" {
		facts.OnlyFor(o.pool)
	}
	return defrag.Plan(facts, o.limits), nil
}

// maxPlans bounds how often a plan is made again because the one before is out of date.
const maxPlans = 8

// applyAdvice makes the moves of an advice.
func (o *adviseDefragOptions) applyAdvice(ctx context.Context, carrier *defrag.Carrier, advice defrag.Advice) error {
	for plans := 1; ; plans++ {
		err := applyProposals(ctx, carrier, advice)
		if err == nil {
			return nil
		}
		if !errors.Is(err, defrag.ErrOutdated) || plans == maxPlans {
			return phrase.Errorf("%w\n%s", err, progressText(err))
		}
		if advice, err = o.makePlan(ctx, carrier.Client); err != nil {
			return err
		}
		o.factory.IO.printOut("The cluster has changed since the plan was made. The new plan:\n")
		if err := o.printAdvice(o.factory.IO, advice); err != nil {
			return err
		}
	}
}

// progressText says what was moved, what was not, and how to continue.
func progressText(err error) phrase.Text {
	goOn := phrase.Textf("gpuctl advise defrag --apply makes a new plan, and goes on; --timeout gives each step more time")
	var stopped *defrag.StoppedError
	if !errors.As(err, &stopped) {
		return goOn
	}
	return phrase.Textf("%s\n%s", stopped.ProgressText(), goOn)
}

// applyProposals makes the moves of the proposals, one after another, until one fails.
func applyProposals(ctx context.Context, carrier *defrag.Carrier, advice defrag.Advice) error {
	for _, proposal := range advice.Proposals {
		if len(proposal.Moves) == 0 {
			continue
		}
		if err := carrier.CarryOut(ctx, proposal); err != nil {
			return err
		}
	}
	return nil
}

// printAdvice puts an advice in words.
func (o *adviseDefragOptions) printAdvice(streams IOStreams, advice defrag.Advice) error {
	if len(advice.Proposals)+len(advice.Unhelped) == 0 {
		streams.printOut("No job waits for GPUs.")
		return nil
	}
	moved := slices.ContainsFunc(advice.Proposals, func(p defrag.Proposal) bool { return len(p.Moves) > 0 })
	for _, proposal := range advice.Proposals {
		if err := writeProposal(streams, proposal); err != nil {
			return err
		}
	}
	for _, job := range groupByJob(advice.Unhelped) {
		streams.printOut("%s: no moves help: %s\n", waitingJobText(job), defrag.WhyOf(job))
	}
	if !moved {
		streams.printOut("Nothing is to be moved (looked for at most %d moves each, of pods that have run for %s).", o.limits.Moves, o.limits.MinRun)
		return nil
	}
	text := phrase.Textf("A move restarts the pod: it loses what it has not saved.")
	if !o.apply {
		text = text.Addf(" --apply makes the moves, one at a time.")
	}
	streams.printOut("%s", text)
	return nil
}

// groupByJob groups the pods by job, in the order in which the jobs first appear.
func groupByJob(pods []defrag.Unhelped) [][]defrag.Unhelped {
	var out [][]defrag.Unhelped
	at := map[[2]string]int{}
	for _, pod := range pods {
		key := [2]string{pod.Namespace, pod.Job}
		i, known := at[key]
		if !known || pod.Job == "" {
			at[key] = len(out)
			out = append(out, []defrag.Unhelped{pod})
			continue
		}
		out[i] = append(out[i], pod)
	}
	return out
}

// waitingJobText says which job waits, with how many pods, for how many GPUs.
func waitingJobText(pods []defrag.Unhelped) phrase.Text {
	first := pods[0].Ref
	if len(pods) == 1 {
		return waitingPodText(first)
	}
	total := int64(0)
	for _, pod := range pods {
		total = amounts.Add(total, pod.GPUs)
	}
	return phrase.Textf("%s/%s (%d pods) of namespace %s waits for %s", first.Kind, first.Job, len(pods), first.Namespace, countText(int(total), "GPU"))
}

func writeProposal(streams IOStreams, p defrag.Proposal) error {
	switch len(p.Moves) {
	case 0:
		streams.printOut("%s: it fits node %s as things are, and should start by itself\n", waitingPodText(p.Ref), p.Node)
		return nil
	case 1:
		streams.printOut("%s: 1 move makes room on node %s", waitingPodText(p.Ref), p.Node)
	default:
		streams.printOut("%s: %d moves make room on node %s", waitingPodText(p.Ref), len(p.Moves), p.Node)
	}
	type move = defrag.Move
	if err := writeTable(streams.Out, p.Moves, []column[move]{
		{header: "MOVE", value: func(m move) string { return m.Namespace + "/" + m.Pod }},
		{header: "KIND", value: func(m move) string { return m.Kind }},
		{header: "GPUS", value: func(m move) string { return formatNumber(m.GPUs) }},
		{header: "FROM", value: func(m move) string { return m.From }},
		{header: "TO", value: func(m move) string { return m.To }},
	}, tableStyle{language: streams.outputLanguage()}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(streams.Out)
	return err
}

// waitingPodText says which pod waits for how many GPUs.
func waitingPodText(r defrag.Ref) phrase.Text {
	who := phrase.Textf("pod %s", r.Pod)
	if r.Job != "" {
		who = phrase.Textf("%s/%s (pod %s)", r.Kind, r.Job, r.Pod)
	}
	return phrase.Textf("%s of namespace %s waits for %s", who, r.Namespace, countText(int(r.GPUs), "GPU"))
}
