package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/timelimit"
	"g8s.host/gpu-scheduler/pkg/workload"
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
			"it is asked for the presets that jobs name, for who may use the pools that they ask for, for limit\n" +
			"ranges that give GPUs to jobs which ask for none, and whether it takes the jobs: what gpuctl create would be\n" +
			"refused for is an error here, too.",
		Example: "  gpuctl validate -f train.yaml\n" +
			"  gpuctl validate -f jobs/",
		Args: acceptFileArgs,
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
	warnServiceTypes(o.factory, docs)
	if docs, err = o.checkWithCluster(ctx, docs); err != nil {
		return err
	}
	for _, doc := range docs {
		o.factory.IO.printOut("%s: %s/%s is valid", doc.file, doc.Kind, doc.Name)
	}
	return nil
}

// warnServiceTypes warns of services whose type is left out: files that were written for the first gpuctl meant NodePort by that.
func warnServiceTypes(f *Factory, docs []submission) {
	for _, doc := range docs {
		_, _, served := workload.FieldPosition(doc.text, "service")
		if _, _, given := workload.FieldPosition(doc.text, "service.type"); doc.Kind == workload.KindInference && served && !given {
			f.IO.printErr("%swarning: service.type is %s where it is left out, and was %s in the first gpuctl: write service: {type: %s} if callers use the addresses of nodes",
				doc.fieldPrefix("service"), corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeNodePort)
		}
	}
}

// checkWithCluster checks jobs against the cluster, if there is one, and returns them with their presets. All requests share one timeout.
func (o *validateOptions) checkWithCluster(ctx context.Context, docs []submission) ([]submission, error) {
	waiting, end := timelimit.WithLimit(ctx, validateTimeout, phrase.Textf("the cluster has not answered"))
	defer end()
	docs, err := fillKnownPresets(waiting, o.factory, docs)
	if err == nil {
		warnDeniedPools(waiting, o.factory, docs)
		warnDefaultGPUs(waiting, o.factory, docs)
		err = o.checkAdmission(waiting, docs)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return docs, err
}

// fillKnownPresets fills in the presets that jobs name. A cluster that does not answer is not an error: files can be checked without one.
func fillKnownPresets(ctx context.Context, f *Factory, docs []submission) ([]submission, error) {
	if !slices.ContainsFunc(docs, submission.usesPreset) {
		return docs, nil
	}
	stop := startProgress(f.IO, phrase.Textf("Asking the cluster for presets"))
	presets, err := f.presetTexts(ctx)
	stop()
	problems := 0
	out := slices.Clone(docs)
	for i, doc := range out {
		if !doc.usesPreset() {
			continue
		}
		if err != nil {
			f.IO.printErr("%swarning: resources.preset was not looked up: only a cluster knows whether there is a preset %q",
				doc.fieldPrefix("resources.preset"), doc.Job.Resources.Preset)
			continue
		}
		filled, wrong := jobplan.FillPreset(doc.Document, presets)
		if wrong != nil {
			f.IO.printErr("%serror: %v", doc.fieldPrefix("resources.preset"), wrong)
			problems++
		}
		out[i].Document = filled
	}
	if problems > 0 {
		return nil, usageErrorf("%s in the presets of jobs; nothing was done", errorCountText(problems))
	}
	return out, nil
}

// validateTimeout is how long the cluster may take to answer all checks.
const validateTimeout = 5 * time.Second

// warnDeniedPools warns of jobs that may not use their pool: the cluster would refuse their pods. If the cluster does not answer, there is no
// warning.
func warnDeniedPools(ctx context.Context, f *Factory, docs []submission) {
	inPools := slices.DeleteFunc(slices.Clone(docs), func(doc submission) bool {
		return doc.Job == nil || doc.Job.Resources.Pool == names.DefaultPool && !doc.Job.Resources.AsksGPUs()
	})
	if len(inPools) == 0 {
		return
	}
	namespace, err := f.currentNamespace()
	if err != nil {
		return // without a kubeconfig there is no cluster to ask
	}
	client, err := f.newKubernetesClient()
	if err != nil {
		return
	}
	stop := startProgress(f.IO, phrase.Textf("Asking the cluster who may use its pools"))
	read, err := snapshot.Read(ctx, client, snapshot.GPUPools())
	stop()
	if err != nil {
		return
	}
	for _, doc := range inPools {
		use := &doc.Job.Resources
		if why := diagnosis.PoolDenial(read.GPUPools, use.Pool, cmp.Or(doc.Namespace, namespace), render.PriorityClass(doc.Job.Priority)); len(why) > 0 {
			f.IO.printErr("%swarning: %s, as its GPUPool says: the cluster would refuse the pods of the job", doc.fieldPrefix("resources.pool"), why.Localize(f.outputLanguage()))
		}
	}
}

// warnDefaultGPUs warns of jobs that request no GPUs but get some from a limit range of their namespace. If the cluster does not answer, there is no
// warning.
func warnDefaultGPUs(ctx context.Context, f *Factory, docs []submission) {
	namespace, err := f.currentNamespace()
	if err != nil || !slices.ContainsFunc(docs, func(doc submission) bool { return doc.Job != nil && !doc.Job.Resources.AsksGPUs() }) {
		return
	}
	reader, err := f.newReader()
	if err != nil {
		return
	}
	stop := startProgress(f.IO, phrase.Textf("Asking the cluster for its limit ranges"))
	_, warnings, err := submit.GPUDefaults(ctx, reader, documentsOf(docs), namespace)
	stop()
	if err != nil {
		return
	}
	for _, warning := range warnings {
		f.IO.printErr("warning: %s", warning.Localize(f.outputLanguage()))
	}
}
