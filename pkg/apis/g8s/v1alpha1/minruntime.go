package v1alpha1

import "time"

const (
	// MaxMinRuntime is the longest that anything may protect a pod from preemption.
	MaxMinRuntime = 7 * 24 * time.Hour
	// longestDuration is how many characters of a duration are read: pods are written by users.
	longestDuration = 32
)

// MinRuntimes say for how long the pods of a pool may not be preempted after their start.
type MinRuntimes struct {
	// Default is for those that do not say it themselves, Most cuts what is longer.
	Default, Most time.Duration
}

// MinRuntimes of a pool. An unreadable value counts as absent. If there is no maximum, users may not request more than the default, since many short
// pods that cannot be evicted could keep a job of high priority out for ever.
func (d *PoolDefaults) MinRuntimes() MinRuntimes {
	long, _ := readDuration(d.MinRuntime)
	out := MinRuntimes{Default: min(long, MaxMinRuntime)}
	out.Most = out.Default
	if most, ok := readDuration(d.MaxMinRuntime); ok {
		out.Most = min(most, MaxMinRuntime)
	}
	return out
}

// RuntimeFor is for how long a pod may not be preempted after its start, 0 if it always may.
func (m MinRuntimes) RuntimeFor(annotations map[string]string) time.Duration {
	says, ok := MinRuntimeOf(annotations)
	if !ok {
		says = m.Default
	}
	return min(says, m.Most)
}

// MinRuntimeOf is the pod's own request, false if there is none that can be read.
func MinRuntimeOf(annotations map[string]string) (time.Duration, bool) {
	return readDuration(annotations[AnnotationMinRuntime])
}

// readDuration reads a duration that is not negative.
func readDuration(text string) (time.Duration, bool) {
	if text == "" || len(text) > longestDuration {
		return 0, false
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		return 0, false
	}
	return duration, true
}
