package pool

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// EarlierDomain is the label domain of the first gpuctl.
const EarlierDomain = "runwhere.ai/"

// ourKeys are the names of our labels of nodes, without their domain.
var ourKeys = []string{"pool", "gpu-type", "rack", "gpu-sharing"}

// plainKeys are the labels without a domain that the scheduler reads on nodes.
var plainKeys = []string{names.LabelAccelerator, names.LabelInterconnect, names.LabelMemory, names.LabelCount}

// LabelKey returns the key that a word stands for, in gpuctl and in the REST API. The name of one of our labels, also under the domain and in the
// spelling of the first gpuctl, is that label: pool is g8s.host/pool. Every other word is a literal key, such as accelerator.
func LabelKey(word string) string {
	name := strings.TrimPrefix(word, EarlierDomain)
	if name == "gpuType" || name == "gpu_type" {
		return names.LabelGPUType
	}
	if slices.Contains(ourKeys, name) {
		return names.GroupName + "/" + name
	}
	return word
}

// CheckLabelKey rejects keys that Kubernetes rejects, and Kubernetes' own keys.
func CheckLabelKey(key string) error {
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return phrase.Errorf("label key %q: %s", key, joinProblems(problems))
	}
	domain, _, qualified := strings.Cut(key, "/")
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if qualified && (domain == reserved || strings.HasSuffix(domain, "."+reserved)) {
			return phrase.Errorf("label key %q: labels of %s are Kubernetes' own, and not for users to change", key, reserved)
		}
	}
	return nil
}

// CheckMisspelledKey rejects a key that is nearly one that the scheduler reads: nothing would read such a label. The error is a [MisspelledKeyError].
func CheckMisspelledKey(key string) error {
	if meant := meantKey(key); meant != "" && meant != key {
		return &MisspelledKeyError{Key: key, Meant: meant}
	}
	return nil
}

// meantKey returns the key that the scheduler reads and that is nearly the given one, "" for none.
func meantKey(key string) string {
	domain, name, qualified := strings.Cut(key, "/")
	switch {
	case !qualified && slices.Contains(plainKeys, key), qualified && domain == names.GroupName && slices.Contains(ourKeys, name):
		return key
	case !qualified:
		if near := spelling.Nearest(key, append(slices.Clone(ourKeys), plainKeys...)); near != "" {
			return LabelKey(near)
		}
	case domain == names.GroupName:
		if near := spelling.Nearest(name, ourKeys); near != "" {
			return names.GroupName + "/" + near
		}
	case spelling.Nearest(domain, []string{names.GroupName}) != "":
		return names.GroupName + "/" + name
	}
	return ""
}

// MisspelledKeyError means that a key is nearly one that the scheduler reads.
type MisspelledKeyError struct{ Key, Meant string }

func (e *MisspelledKeyError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *MisspelledKeyError) Message() phrase.Text {
	return phrase.Textf("label key %q: nothing reads it (did you mean %q?)", e.Key, e.Meant)
}

// CheckLabelValue rejects values that Kubernetes rejects. what names the value.
func CheckLabelValue(what phrase.Text, value string) error {
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return phrase.Errorf("%s is %q: %s", what, value, joinProblems(problems))
	}
	return nil
}

// joinProblems joins Kubernetes' messages about a name, without the regular expressions.
func joinProblems(problems []string) string {
	out := make([]string, len(problems))
	for i, problem := range problems {
		out[i], _, _ = strings.Cut(problem, " (e.g.")
	}
	return strings.Join(out, "; ")
}
