package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/submit"
)

func newAddCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "add node NODE... --pool POOL",
		Short:   "Add nodes to a pool",
		Example: "  gpuctl add node node-1 node-2 --pool training-pool",
		Args:    cobra.ArbitraryArgs,
		RunE:    needCommand,
	}
	o := &memberOptions{factory: f, plan: pool.Add, done: func(pool string) phrase.Text { return phrase.Textf("added to pool %s", pool) }}
	sub := o.newNodeCmd()
	sub.Short = "Add nodes to a pool"
	sub.Long = "Add nodes to a pool, which is there as soon as a node is in it. A node of another pool is taken out of it\n" +
		"by --force only. Pods that run on a node stay on it."
	sub.Example = "  gpuctl add node node-1 node-2 --pool training-pool"
	run := sub.RunE
	sub.RunE = func(cmd *cobra.Command, args []string) error {
		if o.pool == names.DefaultPool {
			return usageErrorf("pool %s is all nodes that are in no other: gpuctl remove node takes nodes out of theirs", names.DefaultPool)
		}
		if err := o.confirmNewPool(cmd.Context(), args); err != nil {
			return err
		}
		return run(cmd, args)
	}
	sub.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation")
	sub.Flags().BoolVar(&o.force, "force", false, "Take nodes out of the pools that they are in")
	cmd.AddCommand(sub)
	return cmd
}

// confirmNewPool asks for confirmation if the pool does not exist and its name is close to an existing pool. No job asks for a pool whose name is a
// typo.
func (o *memberOptions) confirmNewPool(ctx context.Context, nodes []string) error {
	if o.pool == "" || len(nodes) == 0 || o.yes {
		return nil // reported elsewhere
	}
	_, cluster, err := o.factory.readFleet(ctx)
	if err != nil {
		return err
	}
	if _, there := cluster.FindPool(o.pool); there {
		return nil
	}
	near := suggestPool(o.pool, collectNames(cluster.Pools, func(p inventory.Pool) string { return p.Name }))
	if near == "" {
		return nil
	}
	return askConfirmation(o.factory.IO, phrase.Textf("This makes a new pool %s, beside pool %s", o.pool, near), false)
}

// suggestPool returns the existing pool that a name was probably meant to be, or "". Pools that differ only in their numbers are not typos of each
// other.
func suggestPool(name string, known []string) string {
	near := spelling.Nearest(name, known)
	if differOnlyInDigits(name, near) {
		return ""
	}
	return near
}

// differOnlyInDigits reports whether two names differ only in their digits.
func differOnlyInDigits(a, b string) bool {
	letter := func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}
	return strings.Map(letter, a) == strings.Map(letter, b)
}

func newRemoveCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove node NODE... --pool POOL",
		Short:   "Remove nodes from a pool",
		Example: "  gpuctl remove node node-1 --pool training-pool",
		Args:    cobra.ArbitraryArgs,
		RunE:    needCommand,
	}
	o := &memberOptions{factory: f, plan: pool.Leave, done: func(pool string) phrase.Text { return phrase.Textf("removed from pool %s", pool) }}
	sub := o.newNodeCmd()
	sub.Short = "Remove nodes from a pool"
	sub.Long = "Remove nodes from a pool; they are in the pool default then. Nodes that are not in that pool are refused.\n" +
		"Pods that run on a node stay on it, and its GPU type stays, too."
	sub.Example = "  gpuctl remove node node-1 --pool training-pool"
	cmd.AddCommand(sub)
	return cmd
}

// memberOptions are the options for adding nodes to a pool and for removing them.
type memberOptions struct {
	changes
	factory *Factory
	pool    string
	force   bool
	yes     bool
	plan    func(pool string, nodeNames []string, nodes []corev1.Node) pool.Plan
	// done says what was done to a node.
	done func(pool string) phrase.Text
}

func (o *memberOptions) newNodeCmd() *cobra.Command {
	o.io, o.output = o.factory.IO, newChangeOutput()
	cmd := &cobra.Command{
		Use:     "node NODE... --pool POOL",
		Aliases: []string{"nodes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageErrorf("%s needs the names of nodes\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			case o.pool == "":
				return usageErrorf("give the pool with --pool\nSee '%s --help'", cmd.CommandPath())
			}
			return o.changeMembership(cmd.Context(), args)
		},
		ValidArgsFunction: completeNodes(o.factory),
	}
	cmd.Flags().StringVar(&o.pool, "pool", "", "The pool")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(o.factory))
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

func (o *memberOptions) changeMembership(ctx context.Context, nodeNames []string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	if err := pool.CheckLabelValue(phrase.Textf("the pool"), o.pool); err != nil {
		return &usageError{err}
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	plan, err := writer.ChangePool(ctx, func(nodes []corev1.Node) pool.Plan { return o.plan(o.pool, nodeNames, nodes) },
		submit.PoolOptions{Force: o.force, DryRun: o.dryRun == dryRunServer})
	if err != nil {
		return err
	}
	o.factory.warnAboutRunningJobs(ctx, movedNodes(plan))
	recordNodeChanges(&o.changes, plan, o.done(o.pool), phrase.Textf("is so already"))
	return o.printChanges()
}

// recordNodeChanges records, for each node of a plan, what was done, or that there was nothing to do.
func recordNodeChanges(c *changes, plan pool.Plan, done, already phrase.Text) {
	for _, patch := range plan.Patches {
		c.recordChange(change{Kind: "node", Name: patch.Node, Action: submit.ActionConfigured, text: done})
	}
	for _, name := range plan.Unchanged {
		c.recordChange(change{Kind: "node", Name: name, Action: submit.ActionUnchanged, text: already})
	}
}

// movedNodes returns the nodes that a plan takes out of a pool.
func movedNodes(plan pool.Plan) []string {
	var out []string
	for _, foreign := range plan.Foreign {
		out = append(out, foreign.Node)
	}
	_, left := plan.MovedNodes()
	return append(out, left...)
}

// maxMovedNodes is the maximum number of nodes that a note names.
const maxMovedNodes = 10

// reportMovedNodes reports which nodes a plan adds to its pool, and which leave it.
func (f *Factory) reportMovedNodes(plan pool.Plan, dryRun bool) {
	taken, left := plan.MovedNodes()
	takes, loses := phrase.Textf("takes"), phrase.Textf("loses")
	if dryRun {
		takes, loses = phrase.Textf("would take"), phrase.Textf("would lose")
	}
	if len(taken) > 0 {
		named := make([]phrase.Text, len(taken))
		for i, node := range taken {
			if named[i] = phrase.Quote(node.Node); node.Pool != "" {
				named[i] = phrase.Textf("%s (of pool %s)", node.Node, node.Pool)
			}
		}
		f.IO.printErr("note: pool %s %s %s: %s", plan.Pool, takes, countText(len(taken), "node"), listUpTo(named, maxMovedNodes))
	}
	if len(left) > 0 {
		f.IO.printErr("note: pool %s %s %s to pool %s: %s",
			plan.Pool, loses, countText(len(left), "node"), names.DefaultPool, listUpTo(quoteWords(left), maxMovedNodes))
	}
}

// reportRetypedNodes reports which nodes get another GPU type from a pool's file: jobs select nodes by GPU type.
func (f *Factory) reportRetypedNodes(plan pool.Plan, dryRun bool) {
	if len(plan.Taken) == 0 {
		return
	}
	changes := phrase.Textf("changes")
	if dryRun {
		changes = phrase.Textf("would change")
	}
	named := make([]phrase.Text, len(plan.Taken))
	for i, taken := range plan.Taken {
		named[i] = phrase.Textf("%s (%s, was %s)", taken.Node, taken.Becomes, taken.Value)
	}
	f.IO.printErr("note: pool %s %s the GPU type of %s: %s", plan.Pool, changes, countText(len(named), "node"), listUpTo(named, maxMovedNodes))
}

// listUpTo lists words, and the number of words beyond the limit.
func listUpTo(words []phrase.Text, most int) phrase.Text {
	out := phrase.Join(words[:min(len(words), most)], phrase.Textf(", "))
	if over := len(words) - most; over > 0 {
		out = out.Addf(" and %d more", over)
	}
	return out
}

// quoteWords returns the words unchanged as texts.
func quoteWords(words []string) []phrase.Text {
	out := make([]phrase.Text, len(words))
	for i, word := range words {
		out[i] = phrase.Quote(word)
	}
	return out
}

// warnAboutRunningJobs names the jobs that run on nodes which changed their pool. When their pods end, the jobs do not return to these nodes. The
// warning is best effort: it is skipped if the user may not list jobs.
func (f *Factory) warnAboutRunningJobs(ctx context.Context, moved []string) {
	if len(moved) == 0 {
		return
	}
	reader, err := f.newReader()
	if err != nil {
		return
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{})
	if err != nil {
		return
	}
	var affected []string
	for _, job := range jobs {
		on := slices.DeleteFunc(slices.Clone(job.Nodes), func(node string) bool { return !slices.Contains(moved, node) })
		if len(on) > 0 && job.Finished == nil {
			affected = append(affected, fmt.Sprintf("%s/%s (%s)", job.Namespace, job.Name, strings.Join(on, ", ")))
		}
	}
	if len(affected) > 0 {
		f.IO.printErr("warning: these jobs run on the nodes that changed their pool. They go on, and when their\n"+
			"pods end they start in their own pool: %s", strings.Join(affected, ", "))
	}
}
