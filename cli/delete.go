package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

type deleteOptions struct {
	factory *Factory
	files   []string
	wait    bool
	timeout time.Duration
	force   bool
	missing bool
}

func newDeleteCmd(f *Factory) *cobra.Command {
	o := &deleteOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "delete {[job] NAME... | pool NAME... | -f FILE}",
		Aliases: []string{"rm"},
		Short:   "Delete jobs or pools",
		Long: "Delete jobs or pools. Of a job, all goes that gpuctl made for it, and nothing else; the command returns\n" +
			"when its pods have ended and the GPUs are free. Of a pool, the label goes from its nodes; the nodes stay,\n" +
			"in the pool default.",
		Example: "  gpuctl delete qwen2-sft\n  gpuctl delete -f train.yaml\n  gpuctl delete pool training-pool",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDelete(cmd.Context(), o, args)
		},
		ValidArgsFunction: completeJobs(f),
	}
	addFilesFlag(cmd, &o.files)
	cmd.Flags().BoolVar(&o.wait, "wait", true, "Wait until the pods have ended")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long to wait")
	cmd.Flags().BoolVar(&o.force, "force", false, "Delete a pool even if jobs use it")
	cmd.Flags().BoolVar(&o.missing, "ignore-not-found", false, "Count what is not there as deleted")
	return cmd
}

// target is one thing to delete.
type target struct {
	pool            bool
	namespace, name string
	// kind restricts a job to one kind, "" is any.
	kind string
}

func runDelete(ctx context.Context, o *deleteOptions, args []string) error {
	targets, err := o.targets(args)
	if err != nil {
		return err
	}
	writer, err := o.factory.writer()
	if err != nil {
		return err
	}
	var failures []error
	for _, t := range targets {
		err := o.deleteOne(ctx, writer, t)
		if o.missing && exitCode(err) == exitNotFound {
			continue
		}
		if err != nil {
			failures = append(failures, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(failures) > 1 {
		for _, failure := range failures {
			fmt.Fprintln(o.factory.IO.ErrOut, "error: "+message(failure))
		}
		return &quietError{failures[0]}
	}
	return errors.Join(failures...)
}

// targets reads what to delete from the arguments or from the files.
func (o *deleteOptions) targets(args []string) ([]target, error) {
	switch {
	case len(args) > 0 && len(o.files) > 0:
		return nil, usagef("give names or -f FILE, not both")
	case len(o.files) > 0:
		return o.targetsOfFiles()
	}
	return o.targetsOfArgs(args)
}

func (o *deleteOptions) targetsOfArgs(args []string) ([]target, error) {
	pools := false
	switch {
	case len(args) > 0 && slices.Contains([]string{"job", "jobs"}, args[0]):
		args = args[1:]
	case len(args) > 0 && slices.Contains([]string{"pool", "pools"}, args[0]):
		args, pools = args[1:], true
	}
	if len(args) == 0 {
		return nil, usagef("nothing to delete: give the names of jobs, or -f FILE")
	}
	namespace, err := o.factory.namespace()
	if err != nil {
		return nil, err
	}
	var out []target
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		switch {
		case !ok:
			out = append(out, target{pool: pools, namespace: namespace, name: arg})
		case kind == "job" || slices.Contains(jobKinds(), kind):
			out = append(out, target{namespace: namespace, name: name, kind: strings.TrimPrefix(kind, "job")})
		case kind == "pool":
			out = append(out, target{pool: true, name: name})
		default:
			return nil, usagef("unknown kind %q in %q%s", kind, arg, didYouMean(kind, append(jobKinds(), "pool", "job")))
		}
	}
	return out, nil
}

func (o *deleteOptions) targetsOfFiles() ([]target, error) {
	docs, err := readDocuments(o.factory.IO, o.files)
	if err != nil {
		return nil, err
	}
	namespace, err := o.factory.namespace()
	if err != nil {
		return nil, err
	}
	var out []target
	for _, doc := range docs {
		t := target{pool: doc.Pool != nil, namespace: namespace, name: doc.Name, kind: string(doc.Kind)}
		if doc.Namespace != "" {
			t.namespace = doc.Namespace
		}
		out = append(out, t)
	}
	return out, nil
}

func (o *deleteOptions) deleteOne(ctx context.Context, writer *submit.Client, t target) error {
	if t.pool {
		return o.deletePool(ctx, writer, t.name)
	}
	deleted, err := writer.Delete(ctx, t.namespace, t.name, t.kind)
	if err != nil {
		return err
	}
	if o.wait {
		stop := startProgress(o.factory.IO, "Waiting for the pods of "+t.name+" to end")
		waiting, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		err := writer.WaitGone(waiting, deleted)
		stop()
		if err != nil && waiting.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("job %s is deleted, but after %s its pods have not ended", t.name, o.timeout)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(o.factory.IO.Out, "%s/%s deleted\n", deleted.Kind, deleted.Name)
	return nil
}

func (o *deleteOptions) deletePool(ctx context.Context, writer *submit.Client, name string) error {
	if err := o.checkUnused(ctx, name); err != nil {
		return err
	}
	plan, err := writer.ChangePool(ctx, func(nodes []corev1.Node) pool.Plan { return pool.Delete(name, nodes) }, submit.PoolOptions{})
	if err != nil {
		return err
	}
	if len(plan.Patches) == 0 {
		return &notFoundError{what: fmt.Sprintf("pool %q", name)}
	}
	fmt.Fprintf(o.factory.IO.Out, "pool/%s deleted\n", name)
	return nil
}

// checkUnused refuses to delete a pool under the jobs that wait or run in it: they would never be placed again.
func (o *deleteOptions) checkUnused(ctx context.Context, name string) error {
	if o.force {
		return nil
	}
	reader, err := o.factory.reader()
	if err != nil {
		return err
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{})
	if err != nil {
		return err
	}
	var users []string
	for _, job := range jobs {
		if job.Pool == name && job.Finished == nil {
			users = append(users, job.Namespace+"/"+job.Name)
		}
	}
	if len(users) == 0 {
		return nil
	}
	return &conflictError{what: fmt.Sprintf("pool %q is used by %s: %s\nDelete them first, or delete the pool with --force",
		name, plural(len(users), "job"), strings.Join(users, ", "))}
}
