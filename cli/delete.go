package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

type deleteOptions struct {
	changes
	factory *Factory
	files   []string
	// selector and all select jobs of the namespace; kind restricts both.
	selector, kind string
	all            bool

	wait           bool
	timeout        time.Duration
	force          bool
	ignoreNotFound bool
	namespaces     bool
	yes            bool
}

func newDeleteCmd(f *Factory) *cobra.Command {
	o := &deleteOptions{factory: f}
	o.io, o.output = f.IO, newChangeOutput()
	cmd := &cobra.Command{
		Use:     "delete {NAME... | KIND NAME... | -f FILE | -l SELECTOR | --all}",
		Aliases: []string{"rm"},
		Short:   "Delete jobs, pools, quotas, namespaces or reservations",
		Long: "Delete jobs, pools, quotas, namespaces or reservations.\n\n" +
			"Of a job, all goes that gpuctl made for it, and nothing else; the command returns when its pods have ended\n" +
			"and the GPUs are free. Of a pool, the label goes from its nodes; the nodes stay, in the pool default. Of a\n" +
			"quota, the bounds go; its namespaces stay, and all that is in them, unless --delete-namespace says otherwise.\n" +
			"Only namespaces go that gpuctl made. The nodes of a reservation are for all again. If one of several names is not there, nothing is deleted.",
		Example: "  gpuctl delete qwen2-sft\n" +
			"  gpuctl delete training/qwen2-sft pool/training-pool\n" +
			"  gpuctl delete -f train.yaml\n" +
			"  gpuctl delete --all --kind training -y\n" +
			"  gpuctl delete quota research-quota",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDelete(cmd.Context(), o, args)
		},
		ValidArgsFunction: completeTargets(f),
	}
	addFilesFlag(cmd, &o.files)
	flags := cmd.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "Delete the jobs of the namespace that match this label selector")
	flags.BoolVar(&o.all, "all", false, "Delete all jobs of the namespace")
	flags.StringVar(&o.kind, "kind", "", "With -l or --all, only jobs of this kind: "+strings.Join(jobKinds(), ", "))
	flags.BoolVar(&o.wait, "wait", true, "Wait until the pods have ended, or the namespaces are gone")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long to wait")
	flags.BoolVar(&o.force, "force", false, "Delete a pool even if jobs use it, and do not ask for confirmation")
	flags.BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "Count what is not there as deleted")
	flags.BoolVar(&o.namespaces, "delete-namespace", false, "Delete a quota's namespaces too, with all that is in them")
	flags.BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation")
	o.output.addTo(cmd)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(jobKinds(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runDelete(ctx context.Context, o *deleteOptions, args []string) error {
	targets, err := o.resolveTargets(ctx, args)
	if err != nil {
		return err
	}
	targets = removeDuplicates(targets)
	if slices.ContainsFunc(targets, func(t target) bool { return t.class == classPool && t.Name == names.DefaultPool }) {
		return usageErrorf("pool %s is the nodes that are in no other pool: it cannot be deleted", names.DefaultPool)
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	if err := o.checkTargetsExist(ctx, writer, targets, args); err != nil {
		return err
	}
	if err := o.confirmDeletion(ctx, writer, targets); err != nil {
		return err
	}
	failed := failures{factory: o.factory}
	for _, t := range targets {
		err := o.deleteOne(ctx, writer, t)
		if o.ignoreNotFound && exitCode(err) == exitNotFound {
			continue
		}
		if failed.addError(err) {
			break
		}
	}
	if err := o.printChanges(); err != nil {
		return err
	}
	return failed.firstError()
}

// confirmDeletion asks for confirmation if the command deletes more than the named objects.
func (o *deleteOptions) confirmDeletion(ctx context.Context, writer *submit.Client, targets []target) error {
	if err := o.confirmPools(ctx, writer, targets); err != nil {
		return err
	}
	what := o.dangerText(targets)
	if len(what) == 0 {
		return nil
	}
	if err := o.checkNamespaces(ctx, writer, targets); err != nil {
		return err
	}
	return askConfirmation(o.factory.IO, what, o.yes || o.force)
}

// checkNamespaces refuses namespaces that cannot be deleted, before the user is asked for confirmation.
func (o *deleteOptions) checkNamespaces(ctx context.Context, writer *submit.Client, targets []target) error {
	for _, t := range targets {
		if t.class != classNamespace {
			continue
		}
		_, err := writer.OwnNamespace(ctx, t.Name)
		if o.ignoreNotFound && exitCode(err) == exitNotFound {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recordDeleted records a deleted object.
func (o *deleteOptions) recordDeleted(kind, namespace, name string) {
	o.recordChange(change{Kind: kind, Namespace: namespace, Name: name, Action: submit.ActionDeleted})
}

// dangerText returns what the user must confirm because it deletes more than the named objects, or nothing.
func (o *deleteOptions) dangerText(targets []target) phrase.Text {
	var namespaces, quotas []string
	for _, t := range targets {
		switch t.class {
		case classNamespace:
			namespaces = append(namespaces, t.Name)
		case classQuota:
			quotas = append(quotas, t.Name)
		}
	}
	switch {
	case len(namespaces) > 0:
		return phrase.Textf("This deletes the namespaces %s and all that is in them", strings.Join(namespaces, ", "))
	case len(quotas) > 0 && o.namespaces:
		return phrase.Textf("This deletes the namespaces of %s and all that is in them", strings.Join(quotas, ", "))
	case (o.all || o.selector != "") && len(targets) > 0:
		return phrase.Textf("This deletes %s: %s", countText(len(targets), "job"), targetNames(targets))
	}
	return nil
}

// maxTargetNames is the maximum number of names in a question.
const maxTargetNames = 10

func targetNames(targets []target) phrase.Text {
	names := make([]phrase.Text, len(targets))
	for i, t := range targets {
		names[i] = phrase.Quote(t.Name)
	}
	return listUpTo(names, maxTargetNames)
}

func (o *deleteOptions) deleteOne(ctx context.Context, writer *submit.Client, t target) error {
	switch t.class {
	case classPool:
		return o.deletePool(ctx, writer, t)
	case classQuota:
		return o.deleteQuota(ctx, writer, t.Name)
	case classReservation:
		if err := writer.DeleteReservation(ctx, t.Name); err != nil {
			return err
		}
		o.recordDeleted("reservation", "", t.Name)
		return nil
	case classNamespace:
		if _, err := writer.DeleteNamespace(ctx, t.Name); err != nil {
			return err
		}
		return o.recordNamespaceDeleted(ctx, writer, t.Name)
	}
	return o.deleteJob(ctx, writer, t.Ref)
}

func (o *deleteOptions) deleteJob(ctx context.Context, writer *submit.Client, ref submit.Ref) error {
	deleted, err := writer.Delete(ctx, ref.Namespace, ref.Name, ref.Kind)
	if err != nil {
		return err
	}
	if o.wait {
		if err := o.waitForPods(ctx, writer, deleted); err != nil {
			return err
		}
	}
	o.recordDeleted(deleted.Kind, deleted.Namespace, deleted.Name)
	return nil
}

func (o *deleteOptions) waitForPods(ctx context.Context, writer *submit.Client, job submit.Deleted) error {
	stop := startProgress(o.factory.IO, phrase.Textf("Waiting for the pods of %s to end", job.Name))
	defer stop()
	waiting, stopTimer := timelimit.WithLimit(ctx, o.timeout, phrase.Textf("the pods of job %s have not ended; it is deleted, and they go by themselves\n"+
		"See them: gpuctl get jobs %s --pods -n %s", job.Name, job.Name, job.Namespace))
	defer stopTimer()
	return timelimit.Explain(waiting, writer.WaitForDeletion(waiting, job))
}

func (o *deleteOptions) deleteQuota(ctx context.Context, writer *submit.Client, name string) error {
	deleted, err := writer.DeleteQuota(ctx, name, submit.QuotaOptions{DeleteNamespaces: o.namespaces})
	if err != nil {
		return err
	}
	o.recordDeleted("quota", "", name)
	for _, namespace := range deleted.DeletedNamespaces {
		if err := o.recordNamespaceDeleted(ctx, writer, namespace); err != nil {
			return err
		}
	}
	return nil
}

// recordNamespaceDeleted records that a namespace is deleted. With --wait it first waits until the namespace is gone.
func (o *deleteOptions) recordNamespaceDeleted(ctx context.Context, writer *submit.Client, name string) error {
	if o.wait {
		stop := startProgress(o.factory.IO, phrase.Textf("Waiting for namespace %s to go", name))
		defer stop()
		waiting, stopTimer := timelimit.WithLimit(ctx, o.timeout, phrase.Textf("namespace %s is deleted, and not gone: it goes by itself when all that is in it has\n"+
			"See what is left: gpuctl describe namespace %s", name, name))
		defer stopTimer()
		if err := timelimit.Explain(waiting, writer.WaitForNamespaceDeletion(waiting, name)); err != nil {
			return err
		}
	}
	o.recordDeleted("namespace", "", name)
	return nil
}
