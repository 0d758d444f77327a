package pool

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// EarlierDomain is that of the labels of the first gpuctl.
const EarlierDomain = "runwhere.ai/"

// ourKeys are the names of our labels of nodes, without their domain.
var ourKeys = []string{"pool", "gpu-type", "rack", "gpu-sharing"}

// plainKeys are the labels without a domain that the scheduler reads on nodes.
var plainKeys = []string{names.LabelAccelerator, names.LabelInterconnect, names.LabelMemory, names.LabelCount}

// LabelKey returns the key that a word means, for gpuctl and for the REST API. A name of one of our labels is that label,
// under the domain of the first gpuctl and in its spelling, too: pool is g8s.host/pool. A label that the scheduler reads
// without a domain has none, such as accelerator. Any other word without a domain is one of our keys, unless any key is
// permitted: then it is taken as it is.
func LabelKey(word string, any bool) string {
	word = strings.TrimPrefix(word, EarlierDomain)
	switch {
	case strings.Contains(word, "/"), slices.Contains(plainKeys, word):
		return word
	case word == "gpuType" || word == "gpu_type":
		return names.LabelGPUType
	case any && !slices.Contains(ourKeys, word):
		return word
	}
	return names.GroupName + "/" + word
}

// CheckLabelKey refuses a key that Kubernetes would refuse, one of its own, and where not any key is permitted, those
// that are neither ours nor read by the scheduler: a mistyped domain would label nodes with what nothing reads.
func CheckLabelKey(key string, any bool) error {
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return fmt.Errorf("label key %q: %s", key, plainly(problems))
	}
	domain, _, qualified := strings.Cut(key, "/")
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if qualified && (domain == reserved || strings.HasSuffix(domain, "."+reserved)) {
			return fmt.Errorf("label key %q: labels of %s are Kubernetes' own, and not for users to change", key, reserved)
		}
	}
	if any || qualified && domain == names.GroupName || slices.Contains(plainKeys, key) {
		return nil
	}
	return &ForeignKeyError{Key: key}
}

// ForeignKeyError says that a key is none of our keys.
type ForeignKeyError struct{ Key string }

func (e *ForeignKeyError) Error() string {
	return fmt.Sprintf("label key %q is not one of %s", e.Key, names.GroupName)
}

// CheckLabelValue refuses a value that Kubernetes would refuse. what names it.
func CheckLabelValue(what, value string) error {
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("%s is %q: %s", what, value, plainly(problems))
	}
	return nil
}

// plainly joins what Kubernetes says of a name, without the regular expressions.
func plainly(problems []string) string {
	out := make([]string, len(problems))
	for i, problem := range problems {
		out[i], _, _ = strings.Cut(problem, " (e.g.")
	}
	return strings.Join(out, "; ")
}
