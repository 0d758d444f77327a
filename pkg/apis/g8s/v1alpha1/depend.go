package v1alpha1

import (
	"slices"
	"strings"
)

// MaxDependencies is how many jobs one can start after.
const MaxDependencies = 16

// maxJobName is how long the name of a job can be, in bytes: that of a label.
const maxJobName = 63

// JobNames reads a comma-separated list of job names, each once. It returns false for a list that gpuctl never writes: with more than MaxDependencies
// names, or with one that no job can have. Any user who may create a Job can write one with a hundred thousand names, and many programs look each of
// them up.
func JobNames(list string) ([]string, bool) {
	if list == "" {
		return nil, true
	}
	if len(list) > MaxDependencies*(maxJobName+1) {
		return nil, false
	}
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name == "" || len(name) > maxJobName {
			return nil, false
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) > MaxDependencies {
		return nil, false
	}
	return out, true
}
