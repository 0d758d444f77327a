// Package jobplan decides how to change a job after its submission: pausing, resuming, cancelling and starting it over, changing its requests, and
// applying its YAML again.
//
// The package is pure: it takes objects as they were read, and returns patches or reasons to refuse. pkg/submit reads and writes; gpuctl and the REST
// API call it, so that both make the same decisions.
package jobplan

import (
	"encoding/json"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// State is the state of a job's top object, as far as it decides which actions are allowed. The set is closed.
type State string

// The states of a job.
const (
	// StateActive waits for GPUs or runs.
	StateActive State = "active"
	// StatePaused holds no GPUs, and can be resumed.
	StatePaused State = "paused"
	// StateCancelled was ended by a user, and can be started over.
	StateCancelled State = "cancelled"
	// StateSucceeded has finished successfully.
	StateSucceeded State = "succeeded"
	// StateFailed has finished unsuccessfully.
	StateFailed State = "failed"
	// StateDeleted is being deleted.
	StateDeleted State = "deleted"
)

// StateOf returns the state of a Job or a Deployment.
func StateOf(top client.Object) State {
	cancelled := top.GetAnnotations()[names.AnnotationCancelledAt] != ""
	switch object := top.(type) {
	case *batchv1.Job:
		switch finished := finishCondition(object); {
		case object.DeletionTimestamp != nil:
			return StateDeleted
		case finished == batchv1.JobComplete:
			return StateSucceeded
		case cancelled:
			return StateCancelled
		case finished == batchv1.JobFailed:
			return StateFailed
		case ptr.Deref(object.Spec.Suspend, false):
			return StatePaused
		}
	case *appsv1.Deployment:
		switch {
		case object.DeletionTimestamp != nil:
			return StateDeleted
		case cancelled:
			return StateCancelled
		case ptr.Deref(object.Spec.Replicas, 1) == 0:
			return StatePaused
		}
	}
	return StateActive
}

// finishCondition returns the condition with which a Job has finished, "" if it has not.
func finishCondition(job *batchv1.Job) batchv1.JobConditionType {
	for _, condition := range job.Status.Conditions {
		finished := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if finished && condition.Status == corev1.ConditionTrue {
			return condition.Type
		}
	}
	return ""
}

// StateError says that a job's state does not allow the requested action.
type StateError struct {
	// Job is the job's name.
	Job   string
	State State
	// Hint says what to do instead, as a sentence without a full stop; empty if nothing helps.
	Hint phrase.Text
}

func (e *StateError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *StateError) Message() phrase.Text {
	words := map[State]phrase.Text{
		StateActive: phrase.Textf("waits or runs"), StatePaused: phrase.Textf("is paused"), StateCancelled: phrase.Textf("was cancelled"),
		StateSucceeded: phrase.Textf("has succeeded"), StateFailed: phrase.Textf("has failed"), StateDeleted: phrase.Textf("is being deleted"),
	}
	text := phrase.Textf("job %q %s", e.Job, words[e.State])
	if len(e.Hint) > 0 {
		text = text.Addf("\n%s", e.Hint)
	}
	return text
}

func newStateError(top client.Object, hint phrase.Text) error {
	return &StateError{Job: top.GetLabels()[names.LabelJob], State: StateOf(top), Hint: hint}
}

// Step is a change of a job's top object.
type Step struct {
	// Patch is a JSON merge patch that fails if the object has changed since it was read; nil if there is nothing to do.
	Patch []byte
	// GPUs is the total request of the job while it is not paused: GPUs that the step releases or requests again.
	GPUs int64
}

// Pause plans to take a job's GPUs for a while: a Job is suspended, which deletes its pods; a Deployment is scaled to zero, and its number of
// replicas is recorded.
func Pause(top client.Object, now time.Time) (Step, error) { return PauseBecause(top, now, "") }

// PauseBecause is Pause for controllers: why is a sentence for the user, without a full stop. A Job of Kueue's is not paused: Kueue starts what it has
// admitted again within seconds, and what the pods had done would be lost.
func PauseBecause(top client.Object, now time.Time, why string) (Step, error) {
	switch StateOf(top) {
	case StatePaused:
		if resumesAutomatically(top) && !PausedByUser(top) { // now it no longer starts when what it waits for has ended
			return newStep(top, map[string]any{names.AnnotationPausedAt: now.UTC().Format(time.RFC3339)}, map[string]any{})
		}
		return Step{GPUs: GPUs(top)}, nil
	case StateActive:
		if _, isJob := top.(*batchv1.Job); isJob && top.GetLabels()[names.LabelKueueQueue] != "" {
			return Step{}, newStateError(top, kueueStops(top))
		}
		return haltPods(top, names.AnnotationPausedAt, now, why)
	}
	return Step{}, newStateError(top, phrase.Textf("Only a job that waits or runs can be paused"))
}

// kueueStops says how a Job of Kueue's is stopped.
func kueueStops(top client.Object) phrase.Text {
	return phrase.Textf("Kueue decides when a job of queue %[1]s runs, and would start it again at once. Have it stop the job by the job's Workload, by its name there:\n"+
		"kubectl -n %[2]s get workloads.kueue.x-k8s.io -l kueue.x-k8s.io/job-uid=%[3]s\n"+
		`kubectl -n %[2]s patch workloads.kueue.x-k8s.io NAME --type=merge -p '{"spec":{"active":false}}'`,
		top.GetLabels()[names.LabelKueueQueue], top.GetNamespace(), string(top.GetUID()))
}

// Resume plans to let a paused job wait for GPUs again. A job paused while it waited for other jobs waits for them again; a job that only waits for
// them starts without them.
func Resume(top client.Object) (Step, error) {
	switch StateOf(top) {
	case StateActive:
		return Step{GPUs: GPUs(top)}, nil
	case StatePaused:
		if resumesAutomatically(top) && PausedByUser(top) {
			return newStep(top, map[string]any{names.AnnotationPausedAt: nil, names.AnnotationPausedBecause: nil}, map[string]any{})
		}
		if queue := top.GetLabels()[names.LabelKueueQueue]; queue != "" && !PausedByUser(top) {
			return Step{}, newStateError(top, phrase.Textf("Kueue holds it back in queue %s, and starts it when it admits it: gpuctl why %s",
				queue, top.GetLabels()[names.LabelJob]))
		}
		return resumePods(top)
	}
	return Step{}, newStateError(top, phrase.Textf("Start it over: gpuctl retry %s", top.GetLabels()[names.LabelJob]))
}

// Cancel plans to end a job for good and to keep its record. A Job fails at once: its deadline is set to zero, which also ends a suspended Job
// without creating a pod. A Deployment, which has no final state, is scaled to zero.
func Cancel(top client.Object, now time.Time) (Step, error) {
	switch StateOf(top) {
	case StateCancelled:
		return Step{GPUs: GPUs(top)}, nil
	case StateActive, StatePaused:
		step, err := haltPods(top, names.AnnotationCancelledAt, now, "")
		if StateOf(top) == StatePaused {
			step.GPUs = 0 // it holds no GPUs that could be released
		}
		return step, err
	}
	return Step{}, newStateError(top, nil)
}

// haltPods stops the pods of a job and records when.
func haltPods(top client.Object, annotation string, now time.Time, why string) (Step, error) {
	annotations := map[string]any{annotation: now.UTC().Format(time.RFC3339)}
	if why != "" {
		annotations[names.AnnotationPausedBecause] = why
	}
	spec := map[string]any{}
	switch object := top.(type) {
	case *batchv1.Job:
		spec["suspend"] = true
		if annotation == names.AnnotationCancelledAt {
			spec["suspend"], spec["activeDeadlineSeconds"] = false, 0
		}
	case *appsv1.Deployment:
		spec["replicas"] = 0
		if replicas := ptr.Deref(object.Spec.Replicas, 1); replicas > 0 {
			annotations[names.AnnotationReplicas] = strconv.Itoa(int(replicas))
		}
	}
	return newStep(top, annotations, spec)
}

// resumePods reverts haltPods, except for a cancelled Job, which has ended.
func resumePods(top client.Object) (Step, error) {
	annotations := map[string]any{names.AnnotationPausedAt: nil, names.AnnotationPausedBecause: nil, names.AnnotationCancelledAt: nil}
	if _, waits := top.GetAnnotations()[names.AnnotationWaitsFor]; waits {
		annotations[names.AnnotationWaitsFor] = nil
	}
	if _, behind := top.GetAnnotations()[names.AnnotationQuotaBehind]; behind {
		annotations[names.AnnotationQuotaBehind] = nil
	}
	spec := map[string]any{}
	switch object := top.(type) {
	case *batchv1.Job:
		spec["suspend"] = false
	case *appsv1.Deployment:
		spec["replicas"] = replicasBefore(object)
		annotations[names.AnnotationReplicas] = nil
	}
	return newStep(top, annotations, spec)
}

// replicasBefore returns the number of replicas of a Deployment while it is not paused.
func replicasBefore(deployment *appsv1.Deployment) int32 {
	if now := ptr.Deref(deployment.Spec.Replicas, 1); now > 0 {
		return now
	}
	before, err := strconv.ParseInt(deployment.Annotations[names.AnnotationReplicas], 10, 32)
	if err != nil || before < 1 {
		return 1 // someone else scaled it to zero
	}
	return int32(before)
}

// Scale plans to change the number of replicas of a service, and its YAML. A paused or cancelled service records the number.
func Scale(top *appsv1.Deployment, source string, replicas int32) (Step, error) {
	annotations := map[string]any{names.AnnotationSubmitted: source}
	spec := map[string]any{}
	same := top.Annotations[names.AnnotationSubmitted] == source && replicasBefore(top) == replicas
	switch state := StateOf(top); {
	case same:
		return Step{GPUs: GPUs(top)}, nil
	case state == StatePaused || state == StateCancelled:
		annotations[names.AnnotationReplicas] = strconv.Itoa(int(replicas))
	default:
		spec["replicas"] = replicas
	}
	return newStep(top, annotations, spec)
}

func newStep(top client.Object, annotations, spec map[string]any) (Step, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": top.GetResourceVersion(), "annotations": annotations},
		"spec":     spec,
	})
	if err != nil {
		return Step{}, phrase.Errorf("encoding the patch of job %s: %w", top.GetLabels()[names.LabelJob], err)
	}
	return Step{Patch: patch, GPUs: GPUs(top)}, nil
}

// GPUs returns the total request of a job's pods while it is not paused: whole GPUs or slots of shared ones.
func GPUs(top client.Object) int64 {
	template, pods := corev1.PodTemplateSpec{}, int32(0)
	switch object := top.(type) {
	case *batchv1.Job:
		template, pods = object.Spec.Template, ptr.Deref(object.Spec.Parallelism, 1)
	case *appsv1.Deployment:
		template, pods = object.Spec.Template, replicasBefore(object)
	}
	request, err := gpu.RequestOf(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	if err != nil {
		return 0
	}
	return (request.Whole + request.Shared) * int64(pods)
}

// Retry plans to start a finished job over. A Job can only be recreated, which remake reports; the step is for a Deployment.
func Retry(top client.Object) (out Step, remake bool, err error) {
	name := top.GetLabels()[names.LabelJob]
	switch StateOf(top) {
	case StateSucceeded, StateFailed, StateCancelled:
		if _, ok := top.(*appsv1.Deployment); !ok {
			return Step{GPUs: GPUs(top)}, true, nil
		}
		out, err = resumePods(top)
		return out, false, err
	case StatePaused:
		return Step{}, false, newStateError(top, phrase.Textf("Let it go on: gpuctl resume %s", name))
	}
	return Step{}, false, newStateError(top, phrase.Textf("Only a job that has ended can be started over. End it first: gpuctl cancel %s", name))
}
