package cli

import (
	"context"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// jobRefs parses job names, such as sft, job/sft or training/sft, in the namespace of the command. Duplicates are removed.
func (f *Factory) jobRefs(args []string) ([]submit.Ref, error) {
	namespace, err := f.currentNamespace()
	if err != nil {
		return nil, err
	}
	out := make([]submit.Ref, len(args))
	for i, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok {
			kind, name = "", arg
		}
		if kind == "job" || kind == "jobs" {
			kind = ""
		}
		if known := findShownKind(kind); known != "" {
			kind = known
		}
		if kind != "" && findShownKind(kind) == "" {
			return nil, usageErrorf("unknown kind %q in %q%s", kind, arg, spelling.DidYouMean(kind, append(jobKinds(), "job")))
		}
		if name == "" {
			return nil, usageErrorf("%q names no job", arg)
		}
		out[i] = submit.Ref{Namespace: namespace, Name: name, Kind: kind}
	}
	return removeDuplicates(out), nil
}

// removeDuplicates removes duplicates.
func removeDuplicates[T comparable](all []T) []T {
	seen := make(map[T]bool, len(all))
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool {
		again := seen[one]
		seen[one] = true
		return again
	})
}

// jobName returns the name of a job from an argument such as sft, job/sft or training/sft.
func jobName(arg string) string {
	kind, name, ok := strings.Cut(arg, "/")
	if ok && (classes[kind] == classJob || findShownKind(kind) != "") {
		return name
	}
	return arg
}

// jobNames returns the job names in arguments, without duplicates.
func jobNames(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = jobName(arg)
	}
	return removeDuplicates(out)
}

// renderOptionsForJob reads from the cluster what rendering a job's YAML again depends on.
func (f *Factory) renderOptionsForJob(ctx context.Context, writer *submit.Client, ref submit.Ref) (render.Options, error) {
	doc, err := writer.Document(ctx, ref)
	if err != nil {
		return render.Options{}, err
	}
	reader, err := f.newReader()
	if err != nil {
		return render.Options{}, err
	}
	options, warnings, err := submit.RenderOptions(ctx, reader, []workload.Document{doc}, ref.Namespace)
	for _, warning := range warnings {
		f.IO.printErr("warning: %s", warning)
	}
	return options, err
}
