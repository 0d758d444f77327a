package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
)

type getLabelsOptions struct {
	listing[inventory.NodeLabel]
	factory *Factory
	key     string
	all     bool
}

func newGetLabelsCmd(f *Factory) *cobra.Command {
	o := &getLabelsOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "labels [NODE]...",
		Aliases: []string{"label"},
		Short:   "List labels of nodes",
		Long: "List the labels of nodes that the scheduler reads. --all lists every label, --key the one of that key, which\n" +
			"a named node must have.",
		Example: "  gpuctl get labels node-1\n  gpuctl get labels --key gpu-type",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return runGetLabels(cmd.Context(), o)
		},
		ValidArgsFunction: completeNodes(f),
	}
	o.listing = listing[inventory.NodeLabel]{
		io: f.IO, now: f.Now, noun: "label",
		columns: func(time.Time) []column[inventory.NodeLabel] { return labelColumns() },
		name:    func(l inventory.NodeLabel) string { return l.Node },
		id:      func(l inventory.NodeLabel) string { return l.Node + " " + l.Key },
		print:   func(l inventory.NodeLabel) string { return l.Node + "/" + l.Key + "=" + l.Value },
	}
	o.addListFlags(cmd)
	cmd.Flags().StringVar(&o.key, "key", "", "Only the label of this key; without a domain it is one of "+names.GroupName)
	cmd.Flags().BoolVar(&o.all, "all", false, "Labels that the scheduler does not read, too")
	return cmd
}

func labelColumns() []column[inventory.NodeLabel] {
	type label = inventory.NodeLabel
	return []column[label]{
		{header: "NODE", value: func(l label) string { return l.Node }},
		{header: "KEY", value: func(l label) string { return l.Key }},
		{header: "VALUE", value: func(l label) string { return l.Value }},
	}
}

func runGetLabels(ctx context.Context, o *getLabelsOptions) error {
	reader, err := o.factory.newReader()
	if err != nil {
		return err
	}
	all, nodes, err := reader.NodeLabels(ctx)
	if err != nil {
		return err
	}
	for _, name := range o.names {
		if !slices.Contains(nodes, name) {
			return &notFoundError{what: phrase.Textf("node %q", name), near: suggestSimilar(name, nodes)}
		}
	}
	shown := slices.DeleteFunc(all, func(l inventory.NodeLabel) bool { return !o.includesKey(l.Key) })
	if o.key != "" {
		return o.printKeyRows(shown, pool.LabelKey(o.key))
	}
	picked, _ := o.pickNamed(shown) // a node without our labels still exists
	o.names = nil
	return o.printNamed(picked)
}

// printKeyRows shows the nodes that have a label, and reports the named nodes that do not.
func (o *getLabelsOptions) printKeyRows(rows []inventory.NodeLabel, key string) error {
	o.noun = nounWithLabel + key
	picked, lacking := o.pickNamed(rows)
	if len(lacking) == 0 || o.quiet {
		return o.printNamed(rows)
	}
	if err := o.writeRows(picked, true); err != nil {
		return err
	}
	return &notFoundError{what: phrase.Textf("label %s of node %s", key, quoteNames(lacking))}
}

func (o *getLabelsOptions) includesKey(key string) bool {
	if o.key != "" {
		return key == o.key || key == pool.LabelKey(o.key)
	}
	return o.all || strings.HasPrefix(key, names.GroupName+"/") || slices.Contains(readLabels, key)
}

// readLabels are the labels of other domains that the scheduler reads.
var readLabels = []string{
	names.LabelAccelerator, names.LabelNVIDIAProduct, names.LabelNVIDIAMemory, names.LabelNVIDIACount,
	names.LabelNVIDIAClique, names.LabelInterconnect, names.LabelMemory, names.LabelCount,
	"topology.kubernetes.io/region", "topology.kubernetes.io/zone",
}
