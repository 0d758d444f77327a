package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

func newPoolCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pool adopt [NODE]...",
		Short:   "Take over pools of the first gpuctl",
		Example: "  gpuctl pool adopt --dry-run",
		Args:    cobra.ArbitraryArgs,
		RunE:    needCommand,
	}
	cmd.AddCommand(newPoolAdoptCmd(f))
	return cmd
}

type adoptOptions struct {
	changes
	factory           *Factory
	overwrite, remove bool
}

func newPoolAdoptCmd(f *Factory) *cobra.Command {
	o := &adoptOptions{factory: f}
	o.io, o.output = f.IO, newChangeOutput()
	domain := strings.TrimSuffix(pool.EarlierDomain, "/")
	cmd := &cobra.Command{
		Use:   "adopt [NODE]...",
		Short: "Label nodes as ours that the first gpuctl has labelled",
		Long: "Label nodes as ours that the first gpuctl has labelled: " + domain + "/pool becomes g8s.host/pool, " + domain + "/gpuType\n" +
			"g8s.host/gpu-type, and so on; without names on all nodes that have such labels. Its own labels stay, so that it\n" +
			"still works, until --remove takes them away. A label of ours that says something else is kept, and refused\n" +
			"without --overwrite. All nodes are checked before the first is labelled. Pods stay where they run.",
		Example: "  gpuctl pool adopt --dry-run\n  gpuctl pool adopt\n  gpuctl pool adopt node-1 --overwrite --remove",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.adoptPools(cmd.Context(), args) },

		ValidArgsFunction: completeNodes(f),
	}
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Change labels of ours that say something else")
	cmd.Flags().BoolVar(&o.remove, "remove", false, "Remove the labels of the first gpuctl")
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

func (o *adoptOptions) adoptPools(ctx context.Context, nodes []string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	plan, err := writer.ChangePool(ctx, func(all []corev1.Node) pool.Plan { return pool.Adopt(nodes, o.remove, all) },
		submit.PoolOptions{Overwrite: o.overwrite, DryRun: o.dryRun == dryRunServer})
	if err != nil {
		return err
	}
	for _, patch := range plan.Patches {
		var set []string
		for _, key := range slices.Sorted(maps.Keys(patch.Labels)) {
			if after := patch.Labels[key].After; after != nil {
				set = append(set, key+"="+*after)
			}
		}
		text := phrase.Textf("adopted: %s", strings.Join(set, ", "))
		if len(set) == 0 {
			text = phrase.Textf("has our labels already; those of the first gpuctl are removed")
		}
		o.recordChange(change{Kind: "node", Name: patch.Node, Action: submit.ActionConfigured, text: text})
	}
	for _, name := range plan.Unchanged {
		o.recordChange(change{Kind: "node", Name: name, Action: submit.ActionUnchanged, text: phrase.Textf("has nothing to adopt")})
	}
	if len(plan.Patches)+len(plan.Unchanged) == 0 {
		o.io.printErr("No node has labels of the first gpuctl.")
	}
	return o.printChanges()
}
