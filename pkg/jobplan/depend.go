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

// Dependencies are the jobs of its namespace that a job starts after.
type Dependencies struct {
	Jobs []string
	// Any says that it is enough that they end; else they have to succeed.
	Any bool
}

// DependenciesOf are what the top object of a job says; none if it says nothing that can be read.
func DependenciesOf(top metav1.Object) Dependencies {
	after, list, _ := strings.Cut(top.GetAnnotations()[names.AnnotationDependsOn], "=")
	jobs, _ := names.JobNames(list)
	if len(jobs) == 0 {
		return Dependencies{}
	}
	return Dependencies{Jobs: jobs, Any: after == names.AfterAny}
}

// WaitsFor are the jobs that a Job is suspended for until they have ended, none for every other. One with a list that
// [names.JobNames] refuses waits until it is resumed.
func WaitsFor(top metav1.Object) []string {
	job, ok := top.(*batchv1.Job)
	left, _ := names.JobNames(top.GetAnnotations()[names.AnnotationWaitsFor])
	if !ok || len(left) == 0 || !ptr.Deref(job.Spec.Suspend, false) || StateOf(job) != StatePaused {
		return nil
	}
	return left
}

// startsByItself reports whether a suspended Job is resumed by gpu-controller: when the jobs that it waits for have ended, or when it is its turn
// for a quota of its namespace.
func startsByItself(top metav1.Object) bool {
	return WaitsFor(top) != nil || top.GetAnnotations()[names.AnnotationQuotaBehind] != ""
}

// HeldForQuota reports whether a Job is suspended until it is its turn for a quota of its namespace, and for nothing else: one that is paused,
// too, or that is made again while the pods of its last run have not ended, waits for more than that.
func HeldForQuota(job *batchv1.Job) bool {
	return StateOf(job) == StatePaused && job.Annotations[names.AnnotationQuotaBehind] != "" && !pausedByUser(job) &&
		job.Annotations[names.AnnotationPausedBecause] == ""
}

// pausedByUser reports whether a job is paused, too, beside waiting for others.
func pausedByUser(top metav1.Object) bool {
	return top.GetAnnotations()[names.AnnotationPausedAt] != ""
}

// Settle plans what becomes of a Job that waits for others, given where each of them stands that there is: those that have
// ended as it asks are waited for no more, and when none is left it may start, if nobody has paused it.
func Settle(held *batchv1.Job, states map[string]State) (Step, error) {
	waits, ended := WaitsFor(held), DependenciesOf(held).Any
	left := slices.DeleteFunc(slices.Clone(waits), func(name string) bool { return states[name].meets(ended) })
	switch {
	case len(left) == len(waits):
		return Step{GPUs: GPUs(held)}, nil
	case len(left) > 0:
		return step(held, map[string]any{names.AnnotationWaitsFor: strings.Join(left, ",")}, map[string]any{})
	}
	spec := map[string]any{}
	if !pausedByUser(held) {
		spec["suspend"] = false
	}
	return step(held, map[string]any{names.AnnotationWaitsFor: nil}, spec)
}

// heldBecause tells a user who finds a job held that nobody let go on.
const heldBecause = "it is made again, and the pods of its last run had not ended"

// TellHeld notes on a Job, before it is created suspended, why it is: whoever finds it so after its making was broken off knows what to
// do. [LetGo] takes the note away.
func TellHeld(fresh *batchv1.Job) {
	if fresh.Annotations == nil {
		fresh.Annotations = map[string]string{}
	}
	fresh.Annotations[names.AnnotationPausedBecause] = heldBecause
}

// LetGo is a merge patch that starts a Job that was held, with what TellHeld has noted taken away.
func LetGo() ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{names.AnnotationPausedBecause: nil}},
		"spec":     map[string]any{"suspend": false},
	})
}

// Hold marks a Job, before it is created, as paused if it waits for others, so that it does not start by itself while the
// pods of the Job whose place it takes run on. It reports whether it did: one that a user has paused is held anyway. A Job
// that stays held, because nobody releases it, is paused as by a user: resuming it lets it wait for the others.
func Hold(fresh *batchv1.Job, now time.Time) bool {
	if len(WaitsFor(fresh)) == 0 || pausedByUser(fresh) {
		return false
	}
	fresh.Annotations[names.AnnotationPausedAt] = now.UTC().Format(time.RFC3339)
	fresh.Annotations[names.AnnotationPausedBecause] = heldBecause
	return true
}

// Release plans to undo Hold, given the Job as it is now. One that was resumed, paused again, cancelled or made again since
// stays as it is; one whose others have all ended meanwhile starts.
func Release(top client.Object, held *batchv1.Job) (Step, error) {
	same := top.GetUID() == held.UID && top.GetAnnotations()[names.AnnotationPausedAt] == held.Annotations[names.AnnotationPausedAt]
	if !same || StateOf(top) != StatePaused {
		return Step{GPUs: GPUs(top)}, nil
	}
	return Resume(top)
}

// meets reports whether a job in this state is waited for no more, where it is enough that it has ended or not.
func (s State) meets(ended bool) bool {
	return s == StateSucceeded || ended && (s == StateFailed || s == StateCancelled)
}

// Cycle returns a way from a job back to itself through the jobs that each starts after, nil if there is none. The first and
// the last name are the job's own.
func Cycle(job string, dependsOn map[string][]string) []string {
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

// wayNames is how many names of a way are told.
const wayNames = names.MaxDependencies

// WayOf tells the outcome of [Cycle]: "a waits for b waits for a". The middle of a long one is left out.
func WayOf(way []string) string {
	const and = " waits for "
	if len(way) <= wayNames {
		return strings.Join(way, and)
	}
	left := fmt.Sprintf("%d others", len(way)-wayNames)
	return strings.Join(slices.Concat(way[:wayNames-1], []string{left, way[len(way)-1]}), and)
}
