package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

type labelOptions struct {
	changes
	factory                   *Factory
	overwrite, remove, anyKey bool
}

func newLabelCmd(f *Factory) *cobra.Command {
	o := &labelOptions{factory: f}
	o.io, o.output = f.IO, changeOutput()
	cmd := &cobra.Command{
		Use:   "label [node] NODE... KEY=VALUE...",
		Short: "Set and remove labels of nodes",
		Long: "Set and remove labels of nodes. KEY- removes a label, as does the last argument with --delete. A key without\n" +
			"a domain is one of " + names.GroupName + ": pool is " + names.LabelPool + ". What the scheduler reads without a domain has none:\n" +
			"accelerator, gpu-memory, gpu-count and gpu-interconnect. Other keys need --allow-any-key, which takes them\n" +
			"as they are. Keys of " + strings.TrimSuffix(pool.EarlierDomain, "/") + ", as the first gpuctl wrote them, become ours. Those of kubernetes.io are\n" +
			"the kubelet's, and refused.\n" +
			"A label that a node has with another value is changed with --overwrite only. All nodes are checked before\n" +
			"the first is labelled.",
		Example: "  gpuctl label node node-1 gpu-type=A100-80G\n" +
			"  gpuctl label node node-1 node-2 rack=r7 --overwrite\n" +
			"  gpuctl label node node-1 rack-\n" +
			"  gpuctl label node node-1 rack --delete",
		RunE:              func(cmd *cobra.Command, args []string) error { return runLabel(cmd, o, args) },
		ValidArgsFunction: completeNodes(f),
	}
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Change labels that a node has with another value")
	cmd.Flags().BoolVar(&o.remove, "delete", false, "Remove the label that is named; if none looks like one, the last argument is")
	cmd.Flags().BoolVar(&o.anyKey, "allow-any-key", false, "Permit any key, and take one without a domain as it is")
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

func runLabel(cmd *cobra.Command, o *labelOptions, args []string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	nodes, labels, err := o.parse(args)
	if err != nil {
		return usagef("%w\nSee '%s --help'", err, cmd.CommandPath())
	}
	if err := o.checkLabels(labels); err != nil {
		return err
	}
	return o.label(cmd.Context(), nodes, labels)
}

func (o *labelOptions) label(ctx context.Context, nodes []string, labels map[string]*string) error {
	writer, err := o.factory.writer()
	if err != nil {
		return err
	}
	plan, err := writer.LabelNodes(ctx, nodes, labels,
		submit.PoolOptions{Force: o.overwrite, DryRun: o.dryRun == dryRunServer})
	if err != nil {
		return err
	}
	addNodeChanges(&o.changes, plan, "labelled", "is labelled so already")
	return o.flush()
}

// parse reads nodes and labels in any order, after an optional word node. A nil value removes the label.
func (o *labelOptions) parse(args []string) (nodes []string, labels map[string]*string, err error) {
	fullKey := func(word string) string { return pool.LabelKey(word, o.anyKey) }
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
		return nil, nil, fmt.Errorf("no label: give KEY=VALUE, or KEY- to remove one")
	case len(nodes) == 0:
		return nil, nil, fmt.Errorf("no node to label")
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), labels, nil
}

// removedKey is the index of the label that --delete removes: the last argument, unless it is another one that alone
// looks like a label, as in "label node pool node-1 --delete".
func removedKey(args []string) int {
	isKey := func(arg string) bool {
		return strings.ContainsAny(arg, "/=") || slices.Contains(usualKeys, pool.LabelKey(arg, false))
	}
	last := len(args) - 1
	if at := slices.IndexFunc(args, isKey); at >= 0 && !slices.ContainsFunc(args[at+1:], isKey) {
		return at
	}
	return last
}

// usualKeys are the labels that nodes have for us.
var usualKeys = []string{names.LabelPool, names.LabelGPUType, names.LabelRack, names.LabelSharing, names.LabelAccelerator}

// checkLabels refuses what the API server would refuse, before the first node is labelled, and keys of other domains.
func (o *labelOptions) checkLabels(labels map[string]*string) error {
	for key, value := range labels {
		err := pool.CheckLabelKey(key, o.anyKey)
		if isA[*pool.ForeignKeyError](err) {
			return usagef("%w: --allow-any-key permits it", err)
		}
		if err == nil && value != nil {
			err = pool.CheckLabelValue("the value of "+key, *value)
		}
		if err != nil {
			return &usageError{err}
		}
	}
	return nil
}
