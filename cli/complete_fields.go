package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/workload"
)

// completeFields completes the argument of explain: a kind with its fields, or a field of any kind, one section at a time.
func completeFields(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := childFields(typed)
	if !strings.Contains(typed, ".") {
		for _, kind := range workload.Kinds {
			out = append(out, string(kind))
		}
	}
	out = filterByPrefix(out, typed)
	if len(out) == 1 && strings.HasSuffix(out[0], ".") {
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeAssignments completes FIELD=VALUE for the fields of some kinds of jobs below a prefix that the user does not type, such as "resources.".
func completeAssignments(prefix string, kinds ...workload.Kind) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if field, _, ok := strings.Cut(typed, "="); ok {
			var out []cobra.Completion
			for _, word := range workload.Choices(kinds, prefix+field) {
				out = append(out, field+"="+word)
			}
			return filterByPrefix(out, typed), cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, kind := range kinds {
			for _, field := range workload.Fields(kind) {
				path, ok := strings.CutPrefix(field.Path, prefix)
				if ok && !field.Section && !strings.ContainsAny(path, "[<") && strings.Contains(prefix+path, ".") {
					out = append(out, path+"=")
				}
			}
		}
		slices.Sort(out)
		return filterByPrefix(slices.Compact(out), typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// childFields returns the fields that can continue a path. Sections end with a dot.
func childFields(typed string) (out []cobra.Completion) {
	parent := typed[:max(strings.LastIndexByte(typed, '.'), 0)]
	lookup := parent
	if _, _, _, err := workload.Lookup(parent); err != nil {
		having := workload.KindsWith(parent)
		if parent != "" && len(having) == 0 {
			return nil
		}
		kind := workload.KindInference // which has all sections that jobs have
		if len(having) > 0 {
			kind = having[0]
		}
		lookup = strings.TrimSuffix(string(kind)+"."+parent, ".")
	}
	_, _, below, err := workload.Lookup(lookup)
	if err != nil {
		return nil
	}
	for _, field := range below {
		name := field.Path[strings.LastIndexByte(field.Path, '.')+1:]
		path := strings.TrimPrefix(parent+"."+name, ".")
		if field.Section {
			path += "."
		}
		out = append(out, path)
	}
	return out
}

// filterByPrefix returns the completions that begin with what is typed.
func filterByPrefix(all []cobra.Completion, typed string) []cobra.Completion {
	return slices.DeleteFunc(slices.Clone(all), func(one cobra.Completion) bool { return !strings.HasPrefix(one, typed) })
}

// completeJobThenFields completes job names; after the first job it also completes FIELD=VALUE of their resources.
func completeJobThenFields(f *Factory) completer {
	jobs, sets := completeJobs(f), completeAssignments(sectionResources, workloadJobKinds()...)
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return jobs(cmd, args, typed)
		}
		return sets(cmd, args, typed)
	}
}

// completeTargets completes the arguments of delete: job names, or a class and names of that class.
func completeTargets(f *Factory) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			out, directive := completeJobs(f)(cmd, args, typed)
			for word, class := range classes {
				if word == string(class) {
					out = append(out, word)
				}
			}
			slices.Sort(out)
			return out, directive
		}
		switch cmp.Or(classes[args[0]], classJob) {
		case classPool:
			return completePools(f)(cmd, args, typed)
		case classNamespace:
			return completeNamespaces(f)(cmd, args, typed)
		case classJob:
			return completeJobs(f)(cmd, args, typed)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// workloadJobKinds returns the kinds that are jobs.
func workloadJobKinds() []workload.Kind {
	return slices.DeleteFunc(slices.Clone(workload.Kinds), func(kind workload.Kind) bool { return !kind.IsJob() })
}
