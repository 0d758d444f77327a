// Package replace makes Jobs replace disrupted pods at once.
//
// A Job ignores disruptions by its pod failure policy: they cost no retry. But its controller waits before it creates the next pod, 10 s after the
// first failed pod, 20 s after the second, up to 10 minutes, and counts ignored pods for that, too (kubernetes v1.37,
// pkg/controller/job/backoff_utils.go, newBackoffRecord). It counts pods with its finalizer, batch.kubernetes.io/job-tracking. Removing the finalizer
// from a failed and ignored pod changes nothing else: such a pod is in neither of the Job's counts, and the Job controller would only remove the
// finalizer. A pod that has not ended keeps it, because it may still succeed, which must be counted.
//
// The Job controller processes a Job one second after an event of its pods, so there is time to be first. If it is faster because of an earlier
// event, the wait is as in Kubernetes.
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
	"g8s.host/gpu-scheduler/pkg/condition"
)

// Plan is the actions for the pods of a Job.
type Plan struct {
	// Release are failed pods to remove the Job's finalizer from. Indexed members of a gang come once per index.
	Release []*corev1.Pod
	// Remember, if not nil, must be written on the Job before that: [g8s.AnnotationIndexFailures].
	Remember Failures
	// Restore are pods that replaced released ones, with the failures of their members: the Job controller created them with fewer.
	Restore []Restoration
}

// Restoration is the failure count to set on a pod.
type Restoration struct {
	Pod      *corev1.Pod
	Failures int32
}

// Failures counts the failures of each member of a Job, by index. Members without failures are absent.
type Failures map[int]int32

// Decide returns the plan for all or some pods of a Job. An error means that the Job's annotation is invalid: then nothing must be done, because
// retries could be lost.
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

// isOver reports whether a Job creates no more pods.
func isOver(job *batchv1.Job) bool {
	return job.DeletionTimestamp != nil ||
		condition.TrueOfJob(job, batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet) != nil
}

func isReleasable(job *batchv1.Job, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && HasFinalizer(pod) && isIgnored(job.Spec.PodFailurePolicy, pod)
}

// HasFinalizer reports whether the Job controller still has to process a pod.
func HasFinalizer(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// isActive reports whether a pod is its member's current one: the Job controller creates no other beside it.
func isActive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning)
}

// isIgnored reports whether a failure policy ignores a failed pod: the first matching rule decides. Rules on exit codes are not evaluated here; a pod
// that reaches one does not count as ignored.
func isIgnored(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) bool {
	if policy == nil {
		return false
	}
	for _, rule := range policy.Rules {
		if rule.OnExitCodes != nil {
			return false
		}
		if matchConditions(rule.OnPodConditions, pod.Status.Conditions) {
			return rule.Action == batchv1.PodFailurePolicyActionIgnore
		}
	}
	return false
}

func matchConditions(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, conditions []corev1.PodCondition) bool {
	return slices.ContainsFunc(patterns, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
		return slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool {
			return c.Type == p.Type && c.Status == p.Status
		})
	})
}

// countedIndex returns the index of a pod's member, if the Job counts failures per index.
func countedIndex(job *batchv1.Job, pod *corev1.Pod) (int, bool) {
	if job.Spec.BackoffLimitPerIndex == nil {
		return 0, false
	}
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	return index, err == nil && index >= 0
}

// failuresOf returns the previous failures of a pod's member, as the Job controller recorded them.
func failuresOf(pod *corev1.Pod) int32 {
	failures, err := strconv.ParseInt(pod.Annotations[batchv1.JobIndexFailureCountAnnotation], 10, 32)
	if err != nil || failures < 0 {
		return 0 // as in the Job controller
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

// encodeText returns the annotation.
func (f Failures) encodeText() (string, error) {
	text, err := json.Marshal(map[int]int32(f))
	return string(text), err
}
