package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
)

type createOptions struct {
	manifests
	dryRun string
	force  bool
	// overwrite changes GPU types that nodes of pools already have.
	overwrite bool
	// requireFit refuses jobs that no node could ever hold.
	requireFit  bool
	output      *output
	afterCreate createWaitOptions
}

func newCreateCmd(f *Factory) *cobra.Command {
	o := &createOptions{manifests: manifests{factory: f}, output: newOutput("", outputYAML, outputJSON, outputName)}
	cmd := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Create jobs, pools, quotas and reservations from YAML files",
		Long: "Create jobs, pools, quotas and reservations from YAML files. All files are read and checked first: an error in\n" +
			"any of them, and nothing is created. A job is created as a whole or not at all. A pool is a label of its nodes:\n" +
			"all nodes are checked before the first is labelled. A GPU type that a node has is changed with --overwrite only.",
		Example: "  gpuctl create -f train.yaml\n" +
			"  gpuctl create -f pool.yaml -f jobs/\n" +
			"  cat train.yaml | gpuctl create -f -\n" +
			"  gpuctl create -f train.yaml --attach\n" +
			"  gpuctl create -f train.yaml --workdir .\n" +
			"  gpuctl create -f train.yaml --name sft-lr3 --set resources.gpu=8 --env LR=3e-4\n" +
			"  gpuctl create -f train.yaml --dry-run=server -o yaml",
		Args: acceptFileArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCreate(cmd.Context(), o) },
	}
	addFilesFlag(cmd, &o.files)
	addOverrideFlags(cmd, &o.overrides)
	addWorkdirFlag(cmd.Flags(), &o.workdir)
	addDryRunFlag(cmd, &o.dryRun, dryRunClient)
	cmd.Flags().BoolVar(&o.force, "force", false, "Take nodes into a pool that are in another one, and add nodes to a pool that is there")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Change GPU types that the nodes of a pool have")
	cmd.Flags().BoolVar(&o.requireFit, "require-fit", false, "Refuse jobs that no node could ever hold, with exit code 7, or that a quota or a policy never lets in")
	o.output.addTo(cmd)
	o.afterCreate.addFlags(cmd.Flags())
	return cmd
}

func runCreate(ctx context.Context, o *createOptions) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunClient, dryRunServer); err != nil {
		return err
	}
	o.offline, o.unsent = o.dryRun == dryRunClient, o.dryRun != dryRunNone
	creations, err := o.readCreations(ctx)
	if err != nil {
		return err
	}
	return o.executeCreate(ctx, creations)
}

// executeCreate creates the objects of the documents, as the flags say.
func (o *createOptions) executeCreate(ctx context.Context, creations []creation) error {
	stay, err := o.afterCreate.shouldWait(o.dryRun, len(jobCreations(creations)))
	if err != nil {
		return err
	}
	if o.dryRun == dryRunClient {
		return o.printCreations(creations)
	}
	if err := o.checkCreations(ctx, creations); err != nil {
		return err
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	if err := o.createAll(ctx, writer, creations); err != nil || !stay {
		return err
	}
	return o.afterCreate.waitForJobs(ctx, o.factory, creations)
}

// checkCreations checks against the cluster whether the jobs can ever run, before any is created.
func (o *createOptions) checkCreations(ctx context.Context, creations []creation) error {
	if err := o.checkFit(ctx, creations, o.requireFit); err != nil {
		return err
	}
	if err := o.checkQuotas(ctx, creations, o.requireFit); err != nil {
		return err
	}
	return o.checkDependencies(ctx, creations)
}

// createAll creates the documents one by one. A failure does not stop the others, unless the cluster is unreachable or the user interrupted. The exit
// code is that of the first failure.
func (o *createOptions) createAll(ctx context.Context, writer *submit.Client, creations []creation) error {
	var created []creation
	failed := failures{factory: o.factory}
	for _, c := range creations {
		stop := startProgress(o.factory.IO, phrase.Textf("Creating %s", c))
		err := o.createDocument(ctx, writer, c)
		stop()
		if err == nil {
			created = append(created, c)
		} else if failed.addError(err) {
			break
		}
	}
	if err := o.printCreations(created); err != nil {
		return err
	}
	if failed.isEmpty() {
		o.printNextStep(created)
	}
	return failed.firstError()
}

func (o *createOptions) createDocument(ctx context.Context, writer *submit.Client, c creation) error {
	dryRun := o.dryRun == dryRunServer
	switch {
	case c.Pool != nil:
		join := func(nodes []corev1.Node) pool.Plan { return pool.Join(c.Pool, nodes) }
		plan, err := writer.ChangePool(ctx, join, submit.PoolOptions{New: true, Force: o.force, Overwrite: o.overwrite, DryRun: dryRun, Declare: c.Pool, KeepDeclared: true, TakeOver: o.force})
		if err == nil {
			o.factory.reportMovedNodes(plan, dryRun)
			o.factory.reportRetypedNodes(plan, dryRun)
			o.factory.warnAboutRunningJobs(ctx, movedNodes(plan))
		}
		return err
	case c.Reservation != nil:
		return writer.CreateReservation(ctx, c.Reservation, submit.ReservationOptions{Now: o.factory.Now(), DryRun: dryRun})
	case c.Quota != nil:
		return writer.CreateQuota(ctx, c.Quota, submit.QuotaOptions{DryRun: dryRun, Note: c.notePrinter(o.factory.IO)})
	case dryRun:
		unasked, err := writer.DryRun(ctx, c.objects)
		o.reportUnchecked(c, unasked)
		return err
	case o.requireFit && c.Job != nil:
		if err := o.requireAdmission(ctx, writer, c); err != nil {
			return err
		}
	}
	return writer.Create(ctx, c.objects)
}

// requireAdmission refuses a job whose pods the API server would refuse for a reason other than a quota that is currently used up.
func (o *createOptions) requireAdmission(ctx context.Context, writer *submit.Client, c creation) error {
	verdict, err := writer.CheckAdmission(ctx, c.objects)
	if err != nil {
		return err
	}
	o.reportUnchecked(c, verdict.Unchecked)
	var short *submit.QuotaError
	if errors.As(verdict.Refused, &short) && !short.Excess.Never {
		return nil // the user was warned, and the quota may have room soon
	}
	return verdict.Refused
}

// reportUnchecked reports what the API server could not be asked.
func (o *createOptions) reportUnchecked(c creation, unasked []phrase.Text) {
	for _, sentence := range unasked {
		o.factory.IO.printErr("%snote: %s", c.positionPrefix(), sentence.Localize(o.factory.outputLanguage()))
	}
}

func (o *createOptions) printCreations(creations []creation) error {
	var objects []client.Object
	for _, c := range creations {
		objects = append(objects, c.objects...)
	}
	switch o.output.format {
	case outputYAML:
		return render.WriteYAML(o.factory.IO.Out, objects)
	case outputJSON:
		if len(objects) == 1 {
			return writeEncoded(o.factory.IO.Out, outputJSON, objects[0])
		}
		return writeEncoded(o.factory.IO.Out, outputJSON, kubernetesList{
			APIVersion: "v1", Kind: "List", Items: append([]client.Object{}, objects...),
		})
	}
	for _, c := range creations {
		fmt.Fprintln(o.factory.IO.Out, o.creationLine(c))
	}
	return nil
}

// kubernetesList is the form in which kubectl reads several objects as JSON.
type kubernetesList struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      []client.Object `json:"items"`
}

// creationLine says what was created. With -o name, which is for programs, it is the name alone.
func (o *createOptions) creationLine(c creation) string {
	if o.output.format == outputName {
		return c.String()
	}
	return doneText(c.String(), phrase.Textf("created"), o.dryRun).Localize(o.factory.outputLanguage())
}

// printNextStep suggests the next command.
func (o *createOptions) printNextStep(created []creation) {
	if o.dryRun != dryRunNone || len(created) == 0 || o.output.format != "" || o.afterCreate.wait || o.afterCreate.attach {
		return
	}
	last := created[len(created)-1] // pools come first, so this is a job if there is one
	command := "gpuctl get job " + last.Name
	switch {
	case last.Pool != nil:
		command = "gpuctl get nodes --pool " + last.Name
	case last.Reservation != nil:
		command = "gpuctl describe reservation " + last.Name
	case last.Quota != nil:
		command = "gpuctl describe quota " + last.Name
	case len(created) > 1:
		command = "gpuctl get jobs"
	}
	namespace := cmp.Or(last.Namespace, o.factory.explicitNamespace())
	if last.Job != nil && namespace != "" {
		command += " -n " + namespace
	}
	o.factory.IO.printErr("See how it goes: %s", command)
}

// notePrinter returns a function that prints notes about a document.
func (c *creation) notePrinter(io IOStreams) func(sentence phrase.Text) {
	return func(sentence phrase.Text) { io.printErr("%snote: %s", c.positionPrefix(), sentence) }
}
