package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

type createOptions struct {
	factory *Factory
	files   []string
	dryRun  string
	force   bool
	output  *output
	stay    stayOptions
}

func newCreateCmd(f *Factory) *cobra.Command {
	o := &createOptions{factory: f, output: newOutput("", outputYAML, outputJSON, outputName)}
	cmd := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Create jobs and pools from YAML files",
		Long: "Create jobs and pools from YAML files. All files are read and checked first: an error in any of them, and\n" +
			"nothing is created. A job is created as a whole or not at all. A pool is a label of its nodes: all nodes\n" +
			"are checked before the first is labelled.",
		Example: "  gpuctl create -f train.yaml\n" +
			"  gpuctl create -f pool.yaml -f jobs/\n" +
			"  cat train.yaml | gpuctl create -f -\n" +
			"  gpuctl create -f train.yaml --attach\n" +
			"  gpuctl create -f train.yaml --dry-run=server -o yaml",
		Args: noFilesArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCreate(cmd.Context(), o) },
	}
	addFilesFlag(cmd, &o.files)
	cmd.Flags().StringVar(&o.dryRun, "dry-run", dryRunNone,
		"none; client: only print the objects; server: let the API server check them, and create nothing")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	cmd.Flags().BoolVar(&o.force, "force", false, "Take nodes into a pool that are in another one")
	o.output.addTo(cmd)
	o.stay.addFlags(cmd.Flags())
	return cmd
}

// creation is one document with the objects that it becomes.
type creation struct {
	submission
	objects []client.Object
}

func (c creation) String() string { return string(c.Kind) + "/" + c.Name }

func runCreate(ctx context.Context, o *createOptions) error {
	if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, o.dryRun) {
		return usagef("--dry-run is %q, want none, client or server", o.dryRun)
	}
	docs, err := readDocuments(o.factory.IO, o.files)
	if err != nil {
		return err
	}
	creations, err := o.renderAll(ctx, docs)
	if err != nil {
		return err
	}
	stay, err := o.stay.wanted(o.dryRun, len(jobsOf(creations)))
	if err != nil {
		return err
	}
	if o.dryRun == dryRunClient {
		return o.print(creations)
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

// renderAll renders every document before anything is sent. Pools come first: jobs may need them.
func (o *createOptions) renderAll(ctx context.Context, docs []submission) ([]creation, error) {
	options, err := o.renderOptions(ctx, docs)
	if err != nil {
		return nil, err
	}
	out := make([]creation, len(docs))
	for i, doc := range docs {
		objects, warnings, err := render.Objects(doc.Document, options)
		if err != nil {
			return nil, usagef("%s: %w", doc.file, err)
		}
		for _, warning := range warnings {
			fmt.Fprintf(o.factory.IO.ErrOut, "%s:%d: warning: %s\n", doc.file, doc.Line, warning)
		}
		out[i] = creation{submission: doc, objects: objects}
	}
	slices.SortStableFunc(out, func(a, b creation) int { return cmp.Compare(rank(a), rank(b)) })
	return out, nil
}

func rank(c creation) int {
	if c.Pool != nil {
		return 0
	}
	return 1
}

// renderOptions asks the cluster what rendering depends on; without a cluster that is the namespace alone.
func (o *createOptions) renderOptions(ctx context.Context, docs []submission) (render.Options, error) {
	if o.dryRun == dryRunClient {
		return render.Options{Namespace: o.factory.explicitNamespace()}, nil
	}
	namespace, err := o.factory.namespace()
	if err != nil {
		return render.Options{}, err
	}
	reader, err := o.factory.reader()
	if err != nil {
		return render.Options{}, err
	}
	documents := make([]workload.Document, len(docs))
	for i := range docs {
		documents[i] = docs[i].Document
	}
	options, warnings, err := submit.RenderOptions(ctx, reader, documents, namespace)
	for _, warning := range warnings {
		fmt.Fprintln(o.factory.IO.ErrOut, "warning: "+warning)
	}
	return options, err
}

// createAll creates one document after the other. One that fails does not keep the others back, unless the reason is
// the connection or the user; the exit code is that of the first failure.
func (o *createOptions) createAll(ctx context.Context, writer *submit.Client, creations []creation) error {
	var created []creation
	var failures []error
	for _, c := range creations {
		stop := startProgress(o.factory.IO, "Creating "+c.String())
		err := o.createOne(ctx, writer, c)
		stop()
		if err != nil {
			failures = append(failures, err)
			if code := exitCode(err); code == exitUnreachable || code == exitInterrupted {
				break
			}
			continue
		}
		created = append(created, c)
	}
	if err := o.print(created); err != nil {
		return err
	}
	if len(failures) > 1 {
		for _, failure := range failures {
			fmt.Fprintln(o.factory.IO.ErrOut, "error: "+message(failure))
		}
		return &quietError{failures[0]}
	}
	o.hint(created)
	return errors.Join(failures...)
}

func (o *createOptions) createOne(ctx context.Context, writer *submit.Client, c creation) error {
	dryRun := o.dryRun == dryRunServer
	switch {
	case c.Pool != nil:
		join := func(nodes []corev1.Node) pool.Plan { return pool.Join(c.Pool, nodes) }
		_, err := writer.ChangePool(ctx, join, submit.PoolOptions{Force: o.force, DryRun: dryRun})
		return err
	case dryRun:
		return writer.DryRun(ctx, c.objects)
	}
	return writer.Create(ctx, c.objects)
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
		return encode(o.factory.IO.Out, outputJSON, list[client.Object]{Items: append([]client.Object{}, objects...)})
	}
	for _, c := range creations {
		fmt.Fprintln(o.factory.IO.Out, c.String()+o.suffix())
	}
	return nil
}

// suffix is what follows the name of what was created: nothing for -o name, which is for programs.
func (o *createOptions) suffix() string {
	switch {
	case o.output.format == outputName:
		return ""
	case o.dryRun == dryRunNone:
		return " created"
	}
	return " created (" + o.dryRun + " dry run)"
}

// hint tells what to type next.
func (o *createOptions) hint(created []creation) {
	if o.dryRun != dryRunNone || len(created) == 0 || o.output.format != "" || o.stay.wait || o.stay.attach {
		return
	}
	last := created[len(created)-1] // pools come first, so this is a job if there is one
	command := "gpuctl get job " + last.Name
	switch {
	case last.Pool != nil:
		command = "gpuctl get nodes --pool " + last.Name
	case len(created) > 1:
		command = "gpuctl get jobs"
	}
	if last.Namespace != "" {
		command += " -n " + last.Namespace
	}
	fmt.Fprintln(o.factory.IO.ErrOut, "See how it goes: "+command)
}
