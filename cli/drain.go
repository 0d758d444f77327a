package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/drain"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

func newDrainCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "drain node NODE",
		Short:   "Empty a node of pods with GPUs, and keep new ones off it",
		Example: "  gpuctl drain node node-1",
		Args:    cobra.ArbitraryArgs,
		RunE:    needCommand,
	}
	cmd.AddCommand(newDrainNodeCmd(f))
	return cmd
}

type drainOptions struct {
	factory *Factory
	output  *output
	dryRun  string
	force   bool
	timeout time.Duration
}

func newDrainNodeCmd(f *Factory) *cobra.Command {
	o := &drainOptions{factory: f, output: newOutput("", outputJSON, outputYAML)}
	cmd := &cobra.Command{
		Use:     "node NODE",
		Aliases: []string{"nodes"},
		Short:   "Empty a node of pods with GPUs, and keep new ones off it",
		Long: "Empty a node of pods with GPUs, and keep new ones off it: the node is cordoned, and its pods are evicted, which\n" +
			"keeps to disruption budgets and uses no retry of a job. A gang that cannot work without those that leave is\n" +
			"evicted as a whole, from all its nodes. Pods without GPUs, and those of DaemonSets, stay.\n\n" +
			"A pod with the annotation g8s.host/no-migration, and one that nothing would start again, need a person:\n" +
			"nothing is done then, unless --force is given. --dry-run shows what would leave.\n\n" +
			"What was evicted by an interruption or the end of --timeout stays evicted, and the node cordoned: the same\n" +
			"command goes on, gpuctl recover node gives the node back.",
		Example: "  gpuctl drain node node-1 --dry-run\n  gpuctl drain node node-1 --timeout 30m\n  gpuctl recover node node-1",
		Args:    requireOneArg(phrase.Textf("the name of one node")),
		RunE:    func(cmd *cobra.Command, args []string) error { return runDrainNode(cmd.Context(), o, args[0]) },

		ValidArgsFunction: completeNodes(f),
	}
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	cmd.Flags().Lookup("dry-run").Usage = "none, or server: show what would leave, and change nothing"
	cmd.Flags().BoolVar(&o.force, "force", false, "Evict also pods that are not to be moved, and those that nothing would start again")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long to wait until the pods have left")
	o.output.addTo(cmd)
	return cmd
}

func runDrainNode(ctx context.Context, o *drainOptions, node string) error {
	switch err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); {
	case err != nil:
		return err
	case o.timeout <= 0:
		return usageErrorf("--timeout is %s, want more than 0", o.timeout)
	case o.dryRun == dryRunNone && o.output.format != "":
		return usageErrorf("drain prints its steps: -o is for --dry-run")
	}
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	report := func(text phrase.Text) { o.factory.IO.printOut("%s", text) }
	drainer := &drain.Drainer{Client: client, Force: o.force, Report: report}
	if o.dryRun == dryRunServer {
		return o.printPlan(ctx, drainer, node)
	}
	if err := drainer.Drain(ctx, node, o.timeout); err != nil {
		var stopped *drain.StoppedError
		if errors.As(err, &stopped) {
			o.factory.IO.printErr("%s\nTo go on: gpuctl drain node %s. To give the node back: gpuctl recover node %s", stopped.ProgressText(), node, node)
		}
		return err
	}
	o.factory.IO.printOut("node %s is drained", node)
	return nil
}

// printPlan prints what the drain would evict, and fails if the drain would fail.
func (o *drainOptions) printPlan(ctx context.Context, drainer *drain.Drainer, node string) error {
	plan, err := drainer.Plan(ctx, node)
	if err != nil {
		return err
	}
	if o.output.format != "" {
		if err := writeEncoded(o.factory.IO.Out, o.output.format, plan); err != nil {
			return err
		}
	} else if err := writeDrain(o.factory.IO, plan); err != nil {
		return err
	}
	if len(plan.Holds) > 0 {
		return &drain.HeldError{Node: node, Holds: plan.Holds}
	}
	return nil
}

// leavingPod is a table row of a pod to be evicted.
type leavingPod struct {
	drain.Pod
	gang, budget string
}

func writeDrain(streams IOStreams, plan drain.Plan) error {
	var rows []leavingPod
	for _, unit := range plan.Units {
		for _, pod := range unit.Pods {
			rows = append(rows, leavingPod{Pod: pod, gang: unit.Gang, budget: unit.Budget})
		}
	}
	if len(rows) == 0 && len(plan.Holds) == 0 {
		streams.printOut("No pod with GPUs is on node %s; it would be cordoned (server dry run)", plan.Node)
		return nil
	}
	if err := writeTable(streams.Out, rows, []column[leavingPod]{
		{header: "LEAVES", value: func(l leavingPod) string { return l.String() }},
		{header: "JOB", value: func(l leavingPod) string { return l.Job }},
		{header: "GPUS", value: func(l leavingPod) string { return formatNumber(l.GPUs) }},
		{header: "FROM", value: func(l leavingPod) string { return l.Node }},
		{header: "GANG", value: func(l leavingPod) string { return l.gang }},
		{header: "WAITS-FOR-BUDGET", value: func(l leavingPod) string { return l.budget }},
	}, tableStyle{width: streams.Width, language: streams.outputLanguage()}); err != nil {
		return err
	}
	streams.printOut("Node %s would be cordoned; %s would stay on it (server dry run)", plan.Node, countText(plan.Staying, "pod"))
	return nil
}

func newRecoverCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "recover node NODE",
		Short:   "Give a node back that was drained, cordoned or suspect",
		Example: "  gpuctl recover node node-1",
		Args:    cobra.ArbitraryArgs,
		RunE:    needCommand,
	}
	cmd.AddCommand(newRecoverNodeCmd(f))
	return cmd
}

func newRecoverNodeCmd(f *Factory) *cobra.Command {
	o := &drainOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "node NODE",
		Aliases: []string{"nodes"},
		Short:   "Give a node back that was drained, cordoned or suspect",
		Long: "Give a node back that was drained, cordoned or suspect: its cordon is taken away, and the taint by which\n" +
			"gpu-controller keeps pods off a node that failed. A node that is not ready is refused, with what it says.\n" +
			"One whose condition is still true that made it suspect is refused, too, unless --force is given.",
		Example: "  gpuctl recover node node-1",
		Args:    requireOneArg(phrase.Textf("the name of one node")),
		RunE:    func(cmd *cobra.Command, args []string) error { return runRecoverNode(cmd.Context(), o, args[0]) },

		ValidArgsFunction: completeNodes(f),
	}
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	cmd.Flags().BoolVar(&o.force, "force", false, "Trust a node whose condition is still true that made it suspect")
	return cmd
}

func runRecoverNode(ctx context.Context, o *drainOptions, node string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	recovered, err := (&drain.Drainer{Client: client, Force: o.force}).RecoverNode(ctx, node, o.dryRun == dryRunServer)
	if err != nil {
		return err
	}
	o.factory.IO.printOut("node %s %s", node, recoveryText(recovered, o.dryRun == dryRunServer))
	for _, remains := range recovered.RemainTexts {
		o.factory.IO.printErr("warning: node %s gets no pods all the same: %s", node, remains)
	}
	return nil
}

// recoveryText describes what was done, or would be done, to a node.
func recoveryText(recovered drain.Recovered, dryRun bool) phrase.Text {
	var was []phrase.Text
	if recovered.Uncordoned {
		was = append(was, phrase.Textf("cordoned"))
	}
	if recovered.Trusted {
		was = append(was, phrase.Textf("suspect"))
	}
	both := phrase.Join(was, phrase.Textf(" and "))
	switch {
	case len(was) == 0 && dryRun:
		return phrase.Textf("is neither cordoned nor suspect: nothing would be done (server dry run)")
	case len(was) == 0:
		return phrase.Textf("is neither cordoned nor suspect: nothing was done")
	case dryRun:
		return phrase.Textf("would be given back: it is %s (server dry run)", both)
	}
	return phrase.Textf("is given back: it was %s", both)
}
