package jobplan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Dependencies are the jobs of its namespace that a job depends on.
type Dependencies struct {
	Jobs []string
	// Any says that it suffices that they end; otherwise they have to succeed.
	Any bool
}

// DependenciesOf returns the dependencies in the annotations of a job's top object; none if they cannot be parsed.
func DependenciesOf(top metav1.Object) Dependencies {
	after, list, _ := strings.Cut(top.GetAnnotations()[names.AnnotationDependsOn], "=")
	jobs, _ := names.JobNames(list)
	if len(jobs) == 0 {
		return Dependencies{}
	}
	return Dependencies{Jobs: jobs, Any: after == names.AfterAny}
}

// PendingDependencies returns the jobs for which a Job is suspended until they end; none for any other job. A Job with a list that [names.JobNames]
// refuses waits until it is resumed.
func PendingDependencies(top metav1.Object) []string {
	job, ok := top.(*batchv1.Job)
	left, _ := names.JobNames(top.GetAnnotations()[names.AnnotationWaitsFor])
	if !ok || len(left) == 0 || !ptr.Deref(job.Spec.Suspend, false) || StateOf(job) != StatePaused {
		return nil
	}
	return left
}

// resumesAutomatically reports whether gpu-controller resumes a suspended Job: when its dependencies have ended, or when it is its turn for a quota
// of its namespace.
func resumesAutomatically(top metav1.Object) bool {
	return PendingDependencies(top) != nil || top.GetAnnotations()[names.AnnotationQuotaBehind] != ""
}

// HeldForQuota reports whether a Job is suspended only until its turn for a quota of its namespace. A Job that is also paused, or is replaced while
// the pods of its last run have not ended, waits for more than that.
func HeldForQuota(job *batchv1.Job) bool {
	return StateOf(job) == StatePaused && job.Annotations[names.AnnotationQuotaBehind] != "" && !PausedByUser(job) &&
		job.Annotations[names.AnnotationPausedBecause] == ""
}

// PausedByUser reports whether a job is paused in addition to waiting for others.
func PausedByUser(top metav1.Object) bool {
	return top.GetAnnotations()[names.AnnotationPausedAt] != ""
}

// SettleDependencies plans the next step of a Job that waits for others, given the states of those that exist: dependencies that are satisfied are
// removed from the list, and when none is left, the Job may start unless it is paused.
func SettleDependencies(held *batchv1.Job, states map[string]State) (Step, error) {
	waits, ended := PendingDependencies(held), DependenciesOf(held).Any
	left := slices.DeleteFunc(slices.Clone(waits), func(name string) bool { return states[name].satisfiesDependency(ended) })
	switch {
	case len(left) == len(waits):
		return Step{GPUs: GPUs(held)}, nil
	case len(left) > 0:
		return newStep(held, map[string]any{names.AnnotationWaitsFor: strings.Join(left, ",")}, map[string]any{})
	}
	spec := map[string]any{}
	if !PausedByUser(held) {
		spec["suspend"] = false
	}
	return newStep(held, map[string]any{names.AnnotationWaitsFor: nil}, spec)
}

// heldReason explains to a user why a job is held if nothing released it.
const heldReason = "it is made again, and the pods of its last run had not ended"

// AnnotateHeld records on a Job, before it is created suspended, why it is: a user who finds it after an interruption knows what to do. [StartHeldPatch]
// removes the note.
func AnnotateHeld(fresh *batchv1.Job) {
	if fresh.Annotations == nil {
		fresh.Annotations = map[string]string{}
	}
	fresh.Annotations[names.AnnotationPausedBecause] = heldReason
}

// StartHeldPatch returns a merge patch that starts a held Job and removes the note of AnnotateHeld.
func StartHeldPatch() ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{names.AnnotationPausedBecause: nil}},
		"spec":     map[string]any{"suspend": false},
	})
}

// HoldIfWaiting marks a Job as paused before it is created, if it waits for others, so that it does not start while the pods of the Job that it
// replaces still run. It reports whether it did: a Job paused by a user is held anyway. If nothing releases the Job, it is paused as by a user:
// resuming it lets it wait for the others.
func HoldIfWaiting(fresh *batchv1.Job, now time.Time) bool {
	if len(PendingDependencies(fresh)) == 0 || PausedByUser(fresh) {
		return false
	}
	fresh.Annotations[names.AnnotationPausedAt] = now.UTC().Format(time.RFC3339)
	fresh.Annotations[names.AnnotationPausedBecause] = heldReason
	return true
}

// ReleaseHold plans to undo HoldIfWaiting, given the current Job. A Job that was resumed, paused again, cancelled or replaced since is not changed;
// if its dependencies have all ended meanwhile, it starts.
func ReleaseHold(top client.Object, held *batchv1.Job) (Step, error) {
	same := top.GetUID() == held.UID && top.GetAnnotations()[names.AnnotationPausedAt] == held.Annotations[names.AnnotationPausedAt]
	if !same || StateOf(top) != StatePaused {
		return Step{GPUs: GPUs(top)}, nil
	}
	return Resume(top)
}

// satisfiesDependency reports whether a dependency in this state is satisfied; ended says that it suffices that it has ended.
func (s State) satisfiesDependency(ended bool) bool {
	return s == StateSucceeded || ended && (s == StateFailed || s == StateCancelled)
}

// FindCycle returns a dependency path from a job back to itself, nil if there is none. The first and the last name are the job's own.
func FindCycle(job string, dependsOn map[string][]string) []string {
	seen := map[string]bool{}
	var walk func(name string) []string
	walk = func(name string) []string {
		for _, next := range dependsOn[name] {
			if next == job {
				return []string{job, name}
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if way := walk(next); way != nil {
				return append(way, name)
			}
		}
		return nil
	}
	way := walk(job)
	slices.Reverse(way)
	return way
}

// maxCycleNames is the maximum number of names in the text of a cycle.
const maxCycleNames = names.MaxDependencies

// FormatCycle formats the result of [FindCycle]: "a waits for b waits for a". The middle of a long cycle is left out.
func FormatCycle(way []string) string {
	const and = " waits for "
	if len(way) <= maxCycleNames {
		return strings.Join(way, and)
	}
	left := fmt.Sprintf("%d others", len(way)-maxCycleNames)
	return strings.Join(slices.Concat(way[:maxCycleNames-1], []string{left, way[len(way)-1]}), and)
}
