// Package replace has Jobs replace disrupted pods at once.
//
// A Job ignores disruptions by its pod failure policy: they cost no retry. But its controller waits before it makes the
// next pod, 10 s after the first that ended badly, 20 s after the second, up to 10 minutes, and counts ignored pods for that
// as well (kubernetes v1.37, pkg/controller/job/backoff_utils.go, newBackoffRecord). It counts those that carry its
// finalizer, batch.kubernetes.io/job-tracking. Taking the finalizer from a pod that has failed and is ignored leaves all
// else as it is: such a pod is in neither of the Job's counts, and taking its finalizer away is the only thing that the Job
// controller would do with it. A pod that has not ended keeps it, as it may still succeed, which is to be counted.
//
// The Job controller looks at a Job one second after an event of its pods, so there is time to be first. Where it was
// quicker nevertheless, because of an event before that, the wait is as Kubernetes has it.
package replace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Plan is what to do about the pods of a Job.
type Plan struct {
	// Release are failed pods to take the finalizer of the Job from. Members of a gang, with an index, come one an index.
	Release []*corev1.Pod
	// Remember, if not nil, is to be written on the Job before that: [g8s.AnnotationIndexFailures].
	Remember Failures
	// Restore are pods that replaced released ones, and the failures of the members that they are: the Job controller has
	// made them with fewer.
	Restore []Restoration
}

// Restoration is the number of failures that a pod is to be charged.
type Restoration struct {
	Pod      *corev1.Pod
	Failures int32
}

// Failures are how often each member of a Job has failed, by its index; members without a failure are not in it.
type Failures map[int]int32

// Decide says what to do about the pods of a Job, all of them or some. An error says that the Job's annotation is not
// ours: nothing is done then, as retries could be lost.
func Decide(job *batchv1.Job, pods []*corev1.Pod) (Plan, error) {
	if isOver(job) || job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName {
		return Plan{}, nil
	}
	remembered, err := readFailures(job.Annotations[g8s.AnnotationIndexFailures])
	if err != nil {
		return Plan{}, fmt.Errorf("reading annotation %s: %w", g8s.AnnotationIndexFailures, err)
	}
	var plan Plan
	known := maps.Clone(remembered)
	for _, pod := range pods {
		index, counted := countedIndex(job, pod)
		switch {
		case isReleasable(job, pod):
			plan.Release = append(plan.Release, pod)
			if failures := failuresOf(pod); counted && failures > known[index] {
				known[index] = failures
			}
		case counted && isActive(pod) && failuresOf(pod) < remembered[index]:
			plan.Restore = append(plan.Restore, Restoration{Pod: pod, Failures: remembered[index]})
		}
	}
	if !maps.Equal(known, remembered) {
		plan.Remember = known
	}
	return plan, nil
}

// isOver reports whether a Job makes no more pods.
func isOver(job *batchv1.Job) bool {
	return job.DeletionTimestamp != nil || slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
			return c.Status == corev1.ConditionTrue
		}
		return false
	})
}

func isReleasable(job *batchv1.Job, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && HasFinalizer(pod) && isIgnored(job.Spec.PodFailurePolicy, pod)
}

// HasFinalizer reports whether the Job controller has not yet done with a pod.
func HasFinalizer(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// isActive reports whether a pod stands for its member: the Job controller makes no other beside it.
func isActive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning)
}

// isIgnored reports whether a failure policy ignores a pod that has failed: its first rule that holds says so. Whether a
// rule on exit codes holds is not judged here; a pod that comes to one is not called ignored.
func isIgnored(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) bool {
	if policy == nil {
		return false
	}
	for _, rule := range policy.Rules {
		if rule.OnExitCodes != nil {
			return false
		}
		if matches(rule.OnPodConditions, pod.Status.Conditions) {
			return rule.Action == batchv1.PodFailurePolicyActionIgnore
		}
	}
	return false
}

func matches(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, conditions []corev1.PodCondition) bool {
	return slices.ContainsFunc(patterns, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
		return slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool {
			return c.Type == p.Type && c.Status == p.Status
		})
	})
}

// countedIndex is the index of the member that a pod is, where the Job counts failures for each.
func countedIndex(job *batchv1.Job, pod *corev1.Pod) (int, bool) {
	if job.Spec.BackoffLimitPerIndex == nil {
		return 0, false
	}
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	return index, err == nil && index >= 0
}

// failuresOf is how often the member that a pod is has failed before, as its Job's controller has written it.
func failuresOf(pod *corev1.Pod) int32 {
	failures, err := strconv.ParseInt(pod.Annotations[batchv1.JobIndexFailureCountAnnotation], 10, 32)
	if err != nil || failures < 0 {
		return 0 // as the Job controller reads it
	}
	return int32(failures)
}

func readFailures(text string) (Failures, error) {
	failures := Failures{}
	if text == "" {
		return failures, nil
	}
	if err := json.Unmarshal([]byte(text), &failures); err != nil {
		return nil, err
	}
	return failures, nil
}

// text is the annotation.
func (f Failures) text() (string, error) {
	text, err := json.Marshal(map[int]int32(f))
	return string(text), err
}
