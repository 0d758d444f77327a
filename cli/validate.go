package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

type validateOptions struct {
	factory *Factory
	files   []string
}

func newValidateCmd(f *Factory) *cobra.Command {
	o := &validateOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check YAML files, and report every error with its line",
		Long: "Check YAML files, and report every error with its line. No cluster is needed. Where there is one,\n" +
			"it is asked for the presets that jobs name, for who may use the pools that they ask for, and for limit\n" +
			"ranges that give GPUs to jobs which ask for none.",
		Example: "  gpuctl validate -f train.yaml\n" +
			"  gpuctl validate -f jobs/",
		Args: moreFiles,
		RunE: func(cmd *cobra.Command, _ []string) error { return runValidate(cmd.Context(), o) },
	}
	addFilesFlag(cmd, &o.files)
	return cmd
}

func runValidate(ctx context.Context, o *validateOptions) error {
	docs, err := o.factory.readDocuments(o.files)
	if err != nil {
		return err
	}
	if docs, err = o.ask(ctx, docs); err != nil {
		return err
	}
	for _, doc := range docs {
		o.factory.IO.say("%s: %s/%s is valid", doc.file, doc.Kind, doc.Name)
	}
	return nil
}

// ask checks jobs against the cluster, if there is one, and returns them with their presets. All requests share one timeout.
func (o *validateOptions) ask(ctx context.Context, docs []submission) ([]submission, error) {
	waiting, end := timelimit.With(ctx, validatePatience, phrase.Of("the cluster has not answered"))
	defer end()
	docs, err := fillKnown(waiting, o.factory, docs)
	if err == nil {
		tellDenied(waiting, o.factory, docs)
		tellGivenGPUs(waiting, o.factory, docs)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return docs, err
}

// fillKnown fills in the presets that jobs name. A cluster that does not answer is not an error: files can be checked without one.
func fillKnown(ctx context.Context, f *Factory, docs []submission) ([]submission, error) {
	if !slices.ContainsFunc(docs, submission.usesPreset) {
		return docs, nil
	}
	stop := startProgress(f.IO, phrase.Of("Asking the cluster for presets"))
	presets, err := f.presetTexts(ctx)
	stop()
	problems := 0
	out := slices.Clone(docs)
	for i, doc := range out {
		if !doc.usesPreset() {
			continue
		}
		if err != nil {
			f.IO.tell("%swarning: resources.preset was not looked up: only a cluster knows whether there is a preset %q",
				doc.atField("resources.preset"), doc.Job.Resources.Preset)
			continue
		}
		filled, wrong := jobplan.Filled(doc.Document, presets)
		if wrong != nil {
			f.IO.tell("%serror: %v", doc.atField("resources.preset"), wrong)
			problems++
		}
		out[i].Document = filled
	}
	if problems > 0 {
		return nil, usagef("%s in the presets of jobs; nothing was done", countOfErrors(problems))
	}
	return out, nil
}

// validatePatience is how long the cluster may take to answer all checks.
const validatePatience = 5 * time.Second

// tellDenied warns of jobs that may not use their pool: the cluster would refuse their pods. If the cluster does not answer, there is no
// warning.
func tellDenied(ctx context.Context, f *Factory, docs []submission) {
	inPools := slices.DeleteFunc(slices.Clone(docs), func(doc submission) bool {
		return doc.Job == nil || doc.Job.Resources.Pool == names.DefaultPool && !doc.Job.Resources.AsksGPUs()
	})
	if len(inPools) == 0 {
		return
	}
	namespace, err := f.namespace()
	if err != nil {
		return // without a kubeconfig there is no cluster to ask
	}
	client, err := f.kubernetes()
	if err != nil {
		return
	}
	stop := startProgress(f.IO, phrase.Of("Asking the cluster who may use its pools"))
	read, err := snapshot.Read(ctx, client, snapshot.GPUPools())
	stop()
	if err != nil {
		return
	}
	for _, doc := range inPools {
		use := &doc.Job.Resources
		if why := diagnosis.Denied(read.GPUPools, use.Pool, cmp.Or(doc.Namespace, namespace), render.PriorityClass(doc.Job.Priority)); len(why) > 0 {
			f.IO.tell("%swarning: %s, as its GPUPool says: the cluster would refuse the pods of the job", doc.atField("resources.pool"), why.In(f.language()))
		}
	}
}

// tellGivenGPUs warns of jobs that request no GPUs but get some from a limit range of their namespace. If the cluster does not answer, there is no
// warning.
func tellGivenGPUs(ctx context.Context, f *Factory, docs []submission) {
	namespace, err := f.namespace()
	if err != nil || !slices.ContainsFunc(docs, func(doc submission) bool { return doc.Job != nil && !doc.Job.Resources.AsksGPUs() }) {
		return
	}
	reader, err := f.reader()
	if err != nil {
		return
	}
	stop := startProgress(f.IO, phrase.Of("Asking the cluster for its limit ranges"))
	_, warnings, err := submit.GPUDefaults(ctx, reader, documentsOf(docs), namespace)
	stop()
	if err != nil {
		return
	}
	for _, warning := range warnings {
		f.IO.tell("warning: %s", warning.In(f.language()))
	}
}
