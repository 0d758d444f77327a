package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

type applyOptions struct {
	manifests
	changes
	replace, conflicts, force bool
}

func newApplyCmd(f *Factory) *cobra.Command {
	o := &applyOptions{manifests: manifests{factory: f, mayExist: true}}
	o.io, o.output = f.IO, newChangeOutput()
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make jobs, pools, quotas and reservations what YAML files say",
		Long: "Make jobs, pools, quotas and reservations what YAML files say. What is not there is created. What differs is\n" +
			"changed; when nothing differs, nothing is written and nothing restarts. Nodes that a pool's file\n" +
			"does not name leave the pool; which join and which leave is told, and whose GPU type changes. A paused job stays paused.\n\n" +
			"Kubernetes changes little of a training job once it is there. Such a change is refused, and shown;\n" +
			"--replace recreates the job, which starts it over. Its claims keep their data.",
		Example: "  gpuctl apply -f train.yaml\n" +
			"  gpuctl apply -f jobs/ --dry-run=server\n" +
			"  gpuctl apply -f train.yaml --replace",
		Args: acceptFileArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runApply(cmd.Context(), o) },
	}
	addFilesFlag(cmd, &o.files)
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	cmd.Flags().BoolVar(&o.replace, "replace", false, "Recreate a job whose change Kubernetes refuses; it starts over")
	cmd.Flags().BoolVar(&o.conflicts, "force-conflicts", false, "Take over fields that another program set")
	cmd.Flags().BoolVar(&o.force, "force", false, "Take nodes into a pool that are in another one")
	o.output.addTo(cmd)
	return cmd
}

func runApply(ctx context.Context, o *applyOptions) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	o.unsent = o.dryRun != dryRunNone
	creations, err := o.readCreations(ctx)
	if err != nil {
		return err
	}
	if err := o.checkFit(ctx, creations, false); err != nil {
		return err
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	failed := failures{factory: o.factory}
	for _, c := range creations {
		stop := startProgress(o.factory.IO, phrase.Textf("Applying %s", c))
		result, err := o.applyDocument(ctx, writer, c)
		stop()
		if err == nil {
			for _, sentence := range result.Unchecked {
				o.factory.IO.printErr("%snote: %s", c.positionPrefix(), sentence.Localize(o.factory.outputLanguage()))
			}
			o.recordChange(newChange(result))
			continue
		}
		o.printRefusedChange(err)
		if failed.addError(err) {
			break
		}
	}
	if err := o.printChanges(); err != nil {
		return err
	}
	return failed.firstError()
}

// applyDocument applies one document.
func (o *applyOptions) applyDocument(ctx context.Context, writer *submit.Client, c creation) (submit.Result, error) {
	dryRun := o.dryRun == dryRunServer
	switch {
	case c.Pool != nil:
		return o.applyPool(ctx, writer, c, submit.PoolOptions{Force: o.force, Overwrite: true, DryRun: dryRun, TakeOver: o.conflicts})
	case c.Reservation != nil:
		return writer.ApplyReservation(ctx, c.Reservation, submit.ReservationOptions{Now: o.factory.Now(), DryRun: dryRun})
	case c.Quota != nil:
		return writer.ApplyQuota(ctx, c.Quota, submit.QuotaOptions{DryRun: dryRun, Note: c.notePrinter(o.factory.IO)})
	}
	return writer.Apply(ctx, c.objects, submit.ApplyOptions{
		Replace: o.replace, Force: o.conflicts, DryRun: dryRun, Render: o.options,
	})
}

// printRefusedChange shows a change that was refused because Kubernetes cannot make it in place.
func (o *applyOptions) printRefusedChange(err error) {
	var immutable *submit.ImmutableError
	if errors.As(err, &immutable) {
		fmt.Fprint(o.factory.IO.ErrOut, immutable.Diff)
	}
}

func (o *applyOptions) applyPool(
	ctx context.Context, writer *submit.Client, c creation, opts submit.PoolOptions,
) (submit.Result, error) {
	result, plan, err := writer.ApplyPool(ctx, c.Pool, opts)
	if err == nil {
		o.factory.reportMovedNodes(plan, opts.DryRun)
		o.factory.reportRetypedNodes(plan, opts.DryRun)
		o.factory.warnAboutRunningJobs(ctx, movedNodes(plan))
	}
	return result, err
}
