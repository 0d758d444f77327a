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
	requireFit bool
	output     *output
	stay       stayOptions
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
		Args: moreFiles,
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
	o.stay.addFlags(cmd.Flags())
	return cmd
}

func runCreate(ctx context.Context, o *createOptions) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunClient, dryRunServer); err != nil {
		return err
	}
	o.offline, o.unsent = o.dryRun == dryRunClient, o.dryRun != dryRunNone
	creations, err := o.read(ctx)
	if err != nil {
		return err
	}
	return o.create(ctx, creations)
}

// create creates the objects of the documents, as the flags say.
func (o *createOptions) create(ctx context.Context, creations []creation) error {
	stay, err := o.stay.wanted(o.dryRun, len(jobsOf(creations)))
	if err != nil {
		return err
	}
	if o.dryRun == dryRunClient {
		return o.print(creations)
	}
	if err := o.check(ctx, creations); err != nil {
		return err
	}
	writer, err := o.factory.writer()
	if err != nil {
		return err
	}
	if err := o.createAll(ctx, writer, creations); err != nil || !stay {
		return err
	}
	return o.stay.stay(ctx, o.factory, creations)
}

// check checks against the cluster whether the jobs can ever run, before any is created.
func (o *createOptions) check(ctx context.Context, creations []creation) error {
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
		stop := startProgress(o.factory.IO, phrase.Of("Creating %s", c))
		err := o.createOne(ctx, writer, c)
		stop()
		if err == nil {
			created = append(created, c)
		} else if failed.add(err) {
			break
		}
	}
	if err := o.print(created); err != nil {
		return err
	}
	if failed.none() {
		o.hint(created)
	}
	return failed.err()
}

func (o *createOptions) createOne(ctx context.Context, writer *submit.Client, c creation) error {
	dryRun := o.dryRun == dryRunServer
	switch {
	case c.Pool != nil:
		join := func(nodes []corev1.Node) pool.Plan { return pool.Join(c.Pool, nodes) }
		plan, err := writer.ChangePool(ctx, join, submit.PoolOptions{New: true, Force: o.force, Overwrite: o.overwrite, DryRun: dryRun, Declare: c.Pool, KeepDeclared: true, TakeOver: o.force})
		if err == nil {
			o.factory.tellMoved(plan, dryRun)
			o.factory.tellRetyped(plan, dryRun)
			o.factory.warnOfJobs(ctx, movedNodes(plan))
		}
		return err
	case c.Reservation != nil:
		return writer.CreateReservation(ctx, c.Reservation, submit.ReservationOptions{Now: o.factory.Now(), DryRun: dryRun})
	case c.Quota != nil:
		return writer.CreateQuota(ctx, c.Quota, submit.QuotaOptions{DryRun: dryRun, Note: c.noteTo(o.factory.IO)})
	case dryRun:
		unasked, err := writer.DryRun(ctx, c.objects)
		o.note(c, unasked)
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
	verdict, err := writer.Admit(ctx, c.objects)
	if err != nil {
		return err
	}
	o.note(c, verdict.Unasked)
	var short *submit.QuotaError
	if errors.As(verdict.Refused, &short) && !short.Excess.Never {
		return nil // the user was warned, and the quota may have room soon
	}
	return verdict.Refused
}

// note reports what the API server could not be asked.
func (o *createOptions) note(c creation, unasked []phrase.Text) {
	for _, sentence := range unasked {
		o.factory.IO.tell("%snote: %s", c.at(), sentence.In(o.factory.language()))
	}
}

func (o *createOptions) print(creations []creation) error {
	var objects []client.Object
	for _, c := range creations {
		objects = append(objects, c.objects...)
	}
	switch o.output.format {
	case outputYAML:
		return render.YAML(o.factory.IO.Out, objects)
	case outputJSON:
		if len(objects) == 1 {
			return encode(o.factory.IO.Out, outputJSON, objects[0])
		}
		return encode(o.factory.IO.Out, outputJSON, kubernetesList{
			APIVersion: "v1", Kind: "List", Items: append([]client.Object{}, objects...),
		})
	}
	for _, c := range creations {
		fmt.Fprintln(o.factory.IO.Out, o.line(c))
	}
	return nil
}

// kubernetesList is the form in which kubectl reads several objects as JSON.
type kubernetesList struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      []client.Object `json:"items"`
}

// line says what was created. With -o name, which is for programs, it is the name alone.
func (o *createOptions) line(c creation) string {
	if o.output.format == outputName {
		return c.String()
	}
	return doneText(c.String(), phrase.Of("created"), o.dryRun).In(o.factory.language())
}

// hint suggests the next command.
func (o *createOptions) hint(created []creation) {
	if o.dryRun != dryRunNone || len(created) == 0 || o.output.format != "" || o.stay.wait || o.stay.attach {
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
	o.factory.IO.tell("See how it goes: %s", command)
}

// noteTo returns a function that prints notes about a document.
func (c *creation) noteTo(io IOStreams) func(sentence phrase.Text) {
	return func(sentence phrase.Text) { io.tell("%snote: %s", c.at(), sentence) }
}
