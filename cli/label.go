package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

type labelOptions struct {
	changes
	factory                   *Factory
	overwrite, remove, anyKey bool
	// notes are messages about words that are not full label keys.
	notes []phrase.Text
}

func newLabelCmd(f *Factory) *cobra.Command {
	o := &labelOptions{factory: f}
	o.io, o.output = f.IO, newChangeOutput()
	cmd := &cobra.Command{
		Use:   "label [node] NODE... KEY=VALUE...",
		Short: "Set and remove labels of nodes",
		Long: "Set and remove labels of nodes. KEY- removes a label, as does the last argument with --delete. A key is written\n" +
			"as it is given, but for the names of our labels: pool is " + names.LabelPool + ", and so are gpu-type, rack and gpu-sharing,\n" +
			"also with " + strings.TrimSuffix(pool.EarlierDomain, "/") + " before them, as the first gpuctl wrote them. A key that is nearly one which the scheduler\n" +
			"reads is refused, unless --allow-any-key is given. Those of kubernetes.io are the kubelet's, and always refused.\n" +
			"A label that a node has with another value is changed with --overwrite only. All nodes are checked before\n" +
			"the first is labelled.",
		Example: "  gpuctl label node node-1 gpu-type=A100-80G\n" +
			"  gpuctl label node node-1 accelerator=nvidia-tesla-v100\n" +
			"  gpuctl label node node-1 node-2 rack=r7 --overwrite\n" +
			"  gpuctl label node node-1 rack-\n" +
			"  gpuctl label node node-1 rack --delete",
		RunE:              func(cmd *cobra.Command, args []string) error { return runLabel(cmd, o, args) },
		ValidArgsFunction: completeNodes(f),
	}
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Change labels that a node has with another value")
	cmd.Flags().BoolVar(&o.remove, "delete", false, "Remove the label that is named; if none looks like one, the last argument is")
	cmd.Flags().BoolVar(&o.anyKey, "allow-any-key", false, "Permit a key that looks like a slip")
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

func runLabel(cmd *cobra.Command, o *labelOptions, args []string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	nodes, labels, err := o.parseArgs(args)
	if err != nil {
		return usageErrorf("%w\nSee '%s --help'", err, cmd.CommandPath())
	}
	if err := o.checkLabels(labels); err != nil {
		return err
	}
	for _, note := range o.notes {
		o.printWarning(note)
	}
	return o.labelNodes(cmd.Context(), nodes, labels)
}

func (o *labelOptions) labelNodes(ctx context.Context, nodes []string, labels map[string]*string) error {
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	plan, err := writer.LabelNodes(ctx, nodes, labels,
		submit.PoolOptions{Overwrite: o.overwrite, DryRun: o.dryRun == dryRunServer})
	if err != nil {
		return err
	}
	o.recordLabelled(plan, labels)
	for _, hidden := range plan.Hidden {
		o.printWarning(hidden.Says())
	}
	return o.printChanges()
}

// printWarning prints a warning for people; it is omitted for output formats that programs read.
func (o *labelOptions) printWarning(text phrase.Text) {
	if o.output.format == "" {
		o.io.printErr("warning: %s", text)
	}
}

// recordLabelled records what was done to each node, including removed labels with their values.
func (o *labelOptions) recordLabelled(plan pool.Plan, labels map[string]*string) {
	for _, patch := range plan.Patches {
		text := phrase.Textf("labelled")
		if removed := removedLabels(patch); len(removed) == len(patch.Labels) {
			text = phrase.Textf("label removed: %s", strings.Join(removed, ", "))
		} else if len(removed) > 0 {
			text = phrase.Textf("labelled, and label removed: %s", strings.Join(removed, ", "))
		}
		o.recordChange(change{Kind: "node", Name: patch.Node, Action: submit.ActionConfigured, text: text})
	}
	already := phrase.Textf("is labelled so already")
	if !slices.ContainsFunc(slices.Collect(maps.Values(labels)), func(value *string) bool { return value != nil }) {
		already = phrase.Textf("has no label %s", strings.Join(slices.Sorted(maps.Keys(labels)), ", "))
	}
	for _, name := range plan.Unchanged {
		o.recordChange(change{Kind: "node", Name: name, Action: submit.ActionUnchanged, text: already})
	}
}

func removedLabels(patch pool.Patch) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(patch.Labels)) {
		if change := patch.Labels[key]; change.After == nil && change.Before != nil {
			out = append(out, key+"="+*change.Before)
		}
	}
	return out
}

// parseArgs reads nodes and labels in any order, after an optional word node. A nil value removes the label.
func (o *labelOptions) parseArgs(args []string) (nodes []string, labels map[string]*string, err error) {
	fullKey := func(word string) string {
		key := pool.LabelKey(word)
		if key != word {
			o.notes = append(o.notes, phrase.Textf("%s is read as %s", word, key))
		}
		return key
	}
	if len(args) > 1 && (args[0] == "node" || args[0] == "nodes") {
		args = args[1:]
	}
	labels = map[string]*string{}
	if o.remove && len(args) > 0 {
		at := removedKey(args)
		key, _, _ := strings.Cut(args[at], "=")
		labels[fullKey(strings.TrimSuffix(key, "-"))], args = nil, slices.Delete(slices.Clone(args), at, at+1)
	}
	for _, arg := range args {
		key, value, isPair := strings.Cut(arg, "=")
		switch {
		case isPair && o.remove, strings.HasSuffix(key, "-"):
			labels[fullKey(strings.TrimSuffix(key, "-"))] = nil
		case isPair:
			labels[fullKey(key)] = &value
		default:
			nodes = append(nodes, arg)
		}
	}
	switch {
	case len(labels) == 0:
		return nil, nil, phrase.Errorf("no label: give KEY=VALUE, or KEY- to remove one")
	case len(nodes) == 0:
		return nil, nil, phrase.Errorf("no node to label")
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), labels, nil
}

// removedKey returns the index of the label that --delete removes: the last argument, or the only one that looks like a label, as in "label node pool
// node-1 --delete".
func removedKey(args []string) int {
	isKey := func(arg string) bool {
		return strings.ContainsAny(arg, "/=") || slices.Contains(usualKeys, pool.LabelKey(arg))
	}
	last := len(args) - 1
	if at := slices.IndexFunc(args, isKey); at >= 0 && !slices.ContainsFunc(args[at+1:], isKey) {
		return at
	}
	return last
}

// usualKeys are the labels that gpuctl sets on nodes.
var usualKeys = []string{names.LabelPool, names.LabelGPUType, names.LabelRack, names.LabelSharing, names.LabelAccelerator}

// checkLabels refuses what the API server would refuse, and keys that look like typos, before the first node is labelled.
func (o *labelOptions) checkLabels(labels map[string]*string) error {
	for key, value := range labels {
		err := pool.CheckLabelKey(key)
		if err == nil && value != nil && !o.anyKey {
			if err = pool.CheckMisspelledKey(key); err != nil {
				return usageErrorf("%w\n--allow-any-key takes it as it is", err)
			}
		}
		if err == nil && value != nil {
			err = pool.CheckLabelValue(phrase.Textf("the value of %s", key), *value)
		}
		if err != nil {
			return &usageError{err}
		}
	}
	return nil
}
