package inventory

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Status is where a job stands. The set is closed.
type Status string

const (
	// StatusPending waits for a place: at least one pod has no node, and none runs.
	StatusPending Status = "Pending"
	// StatusStarting has its nodes; images, volumes or the readiness probe are on their way.
	StatusStarting Status = "Starting"
	// StatusRunning runs with every desired pod; an array also while some of its tasks wait for room.
	StatusRunning Status = "Running"
	// StatusDegraded runs, but not with every desired pod. In an array something is wrong with the tasks that do not run.
	StatusDegraded Status = "Degraded"
	// StatusFailing has containers that crash or cannot start, or whose node does not respond; Kubernetes keeps trying.
	StatusFailing Status = "Failing"
	// StatusSuspended was paused and holds no GPUs.
	StatusSuspended Status = "Suspended"
	// StatusCancelled was ended by a user, and holds no GPUs.
	StatusCancelled Status = "Cancelled"
	// StatusSucceeded has finished well.
	StatusSucceeded Status = "Succeeded"
	// StatusFailed has finished, and not well.
	StatusFailed Status = "Failed"
	// StatusTerminating is being deleted.
	StatusTerminating Status = "Terminating"
)

// Statuses are all there are, in the order of a job's life.
var Statuses = []Status{
	StatusPending, StatusStarting, StatusRunning, StatusDegraded, StatusFailing, StatusSuspended, StatusCancelled,
	StatusSucceeded, StatusFailed, StatusTerminating,
}

// cancelled is the trouble of a job that a user has ended.
var cancelled = Trouble{Reason: string(reason.Cancelled), Message: "the job was cancelled and holds no GPUs; gpuctl retry starts it over"}

func isCancelled(top metav1.Object) bool {
	return top.GetAnnotations()[names.AnnotationCancelledAt] != ""
}

// ReasonIncomplete is the reason of a job that lacks objects because its creation was interrupted, or is still in progress.
const ReasonIncomplete = string(reason.Incomplete)

// judgeWhole corrects the status of a job whose objects do not all exist, unless it is final.
func (j *Job) judgeWhole(top metav1.Object) {
	if top.GetAnnotations()[names.AnnotationIncomplete] == "" {
		return
	}
	switch j.Status {
	case StatusSuspended, StatusCancelled, StatusSucceeded, StatusFailed, StatusTerminating:
		return
	case StatusRunning:
		j.Status = StatusDegraded
	}
	j.Trouble = Trouble{
		Reason:  ReasonIncomplete,
		Message: "not all of its objects were created; creating it again completes it, and deleting it removes all of it",
	}
}

func judgeBatchJob(job *batchv1.Job, pods []Pod, desired int32, creation Trouble) (Status, Trouble) {
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			return StatusSucceeded, Trouble{}
		case batchv1.JobFailed:
			if isCancelled(job) {
				return StatusCancelled, cancelled
			}
			return StatusFailed, jobFailure(condition, pods)
		}
	}
	switch {
	case job.DeletionTimestamp != nil:
		return StatusTerminating, Trouble{}
	case isCancelled(job):
		return StatusCancelled, cancelled
	case job.Spec.Suspend != nil && *job.Spec.Suspend:
		return judgeSuspended(job)
	}
	status, trouble := judgeRuns(job, pods, desired, creation)
	if next := backOff(job); len(pods) == 0 && trouble.Reason == reasonNoPods && next.Reason != "" {
		trouble = next
	}
	return status, trouble
}

// judgeRuns decides the status of a Job from its pods. The pods of an array run independently.
func judgeRuns(job *batchv1.Job, pods []Pod, desired int32, creation Trouble) (Status, Trouble) {
	if quota.IsArray(job) {
		return judgeTasks(pods, desired, creation)
	}
	return judgePods(pods, desired, creation)
}

// judgeSuspended distinguishes a job that starts after others, or when Kueue admits it, from one that was paused.
func judgeSuspended(job *batchv1.Job) (Status, Trouble) {
	if waits, ok := waitsForJobs(job); ok {
		return StatusPending, waits
	}
	if first := quotaBehind(job); first != "" {
		return StatusPending, Trouble{Reason: quota.Reason, Message: fmt.Sprintf("its pods are made when job %s, which comes first for a quota of the namespace, has all of its own", first)}
	}
	if queue := kueueQueue(job); queue != "" {
		return StatusPending, kueueTrouble(queue)
	}
	return StatusSuspended, pausedTrouble(job)
}

// quotaBehind is the job that a suspended gang comes after for a quota of its namespace, "" for a gang that a user has paused and for any other job.
func quotaBehind(job *batchv1.Job) string {
	if !ptr.Deref(job.Spec.Suspend, false) || job.Annotations[names.AnnotationPausedAt] != "" {
		return ""
	}
	return job.Annotations[names.AnnotationQuotaBehind]
}

// pausedTrouble is the trouble of a job that was paused, by a user or for a recorded reason.
func pausedTrouble(top metav1.Object) Trouble {
	if why := top.GetAnnotations()[names.AnnotationPausedBecause]; why != "" {
		return Trouble{Reason: string(reason.Suspended), Message: why + "; gpuctl resume lets it run again"}
	}
	return Trouble{Reason: string(reason.Suspended), Message: "the job is paused and holds no GPUs"}
}

// jobFailure adds the last pod's end to the condition, because "Job has reached the specified backoff limit" does not show what to fix.
func jobFailure(condition batchv1.JobCondition, pods []Pod) Trouble {
	out := Trouble{Reason: condition.Reason, Message: condition.Message}
	failed := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.status != StatusFailed || p.disrupted })
	if len(failed) == 0 {
		return out
	}
	last := slices.MaxFunc(failed, func(a, b Pod) int { return a.Created.Compare(b.Created) })
	out.Message = last.Message + "; " + out.Message
	if condition.Reason == batchv1.JobReasonBackoffLimitExceeded {
		out.Reason = last.Reason
	}
	return out
}

func judgeDeployment(deployment *appsv1.Deployment, pods []Pod, creation Trouble) (Status, Trouble) {
	desired := int32(1)
	if deployment.Spec.Replicas != nil {
		desired = *deployment.Spec.Replicas
	}
	switch {
	case deployment.DeletionTimestamp != nil:
		return StatusTerminating, Trouble{}
	case isCancelled(deployment):
		return StatusCancelled, cancelled
	case desired == 0 && deployment.Annotations[names.AnnotationPausedAt] != "":
		return StatusSuspended, pausedTrouble(deployment)
	case desired == 0:
		return StatusSuspended, Trouble{Reason: string(reason.Suspended), Message: "the job has no replicas and holds no GPUs"}
	}
	return judgePods(pods, desired, creation)
}

// judgePods decides the status of a job from its pods.
func judgePods(pods []Pod, desired int32, creation Trouble) (Status, Trouble) {
	status, trouble := judgeMissing(pods, desired, creation)
	if status != StatusRunning && anyUp(pods) {
		status = StatusDegraded
	}
	return status, trouble
}

func isUp(p Pod) bool { return p.status == StatusRunning || p.status == StatusSucceeded }

func anyUp(pods []Pod) bool { return slices.ContainsFunc(pods, isUp) }

// judgeMissing is the status that follows from the job's pods that do not run, and StatusRunning if none is missing. A failed pod is history: its
// controller creates another one.
func judgeMissing(pods []Pod, desired int32, creation Trouble) (Status, Trouble) {
	goes := func(p Pod) bool { return p.status == StatusFailed || p.status == StatusTerminating }
	alive := slices.DeleteFunc(slices.Clone(pods), goes)
	gone := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return !goes(p) })
	up := countPods(alive, isUp)
	if up >= desired {
		return StatusRunning, Trouble{}
	}
	status, trouble := worstTrouble(alive)
	if len(alive) < int(desired) && creation.Reason != "" {
		status, trouble = StatusPending, creation
	}
	switch {
	case up > 0 && trouble.Reason == "" && len(gone) > 0:
		return lastFailure(gone)
	case len(alive) > 0 || creation.Reason != "":
		return status, trouble
	case len(pods) > 0:
		return lastFailure(pods)
	}
	return StatusPending, Trouble{Reason: reasonNoPods, Message: "Kubernetes has not created the pods yet"}
}

// lastFailure is the state between the end of a pod and the start of the one that replaces it.
func lastFailure(pods []Pod) (Status, Trouble) {
	last := slices.MaxFunc(pods, func(a, b Pod) int { return a.Created.Compare(b.Created) })
	switch {
	case last.status == StatusFailed && !last.disrupted:
		return StatusFailing, Trouble{Reason: string(reason.Retrying), Message: cmp.Or(last.Message, last.Reason)}
	case last.Reason != "":
		return StatusPending, last.Trouble
	}
	return StatusPending, Trouble{Reason: string(reason.Replacing), Message: "the pods end, their replacements are not there yet"}
}

// reasonNoPods is the reason of a job that has none.
const reasonNoPods = string(reason.WaitingForControllers)

// troubleOrder ranks the statuses of pods by what a user must know first.
var troubleOrder = []Status{StatusFailing, StatusPending, StatusStarting}

// worstTrouble returns the trouble that a user must know first, and the status it means.
func worstTrouble(pods []Pod) (Status, Trouble) {
	for _, status := range troubleOrder {
		troubled := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.status != status })
		if len(troubled) > 0 {
			// A verdict of the scheduler is more informative than a pod that is still in its queue.
			pod := slices.MaxFunc(troubled, func(a, b Pod) int { return cmp.Compare(len(a.Message), len(b.Message)) })
			return status, pod.Trouble
		}
	}
	return StatusPending, Trouble{}
}

// creationFailure is why a pod could not even be created, and when that was.
type creationFailure struct {
	Trouble
	at time.Time
}

// currentTrouble returns the failure unless a pod was created after it: then it no longer applies.
func (f creationFailure) currentTrouble(pods []Pod) Trouble {
	if slices.ContainsFunc(pods, func(p Pod) bool { return p.Created.After(f.at) }) {
		return Trouble{}
	}
	return f.Trouble
}

// creationFailures finds, by the UID of their controller, why pods could not even be created: a quota, a missing
// service account, an admission policy. The newest event wins.
func creationFailures(events []corev1.Event) map[types.UID]creationFailure {
	out := map[types.UID]creationFailure{}
	for i := range events {
		event := buildEvent(&events[i])
		if uid := events[i].InvolvedObject.UID; event.Reason == reasonFailedCreate && !event.Last.Before(out[uid].at) {
			out[uid] = creationFailure{refusalTrouble(refusal.ReplaceAllString(event.Message, "")), event.Last}
		}
	}
	return out
}

// refusal begins the message of such an event, with the name of a pod that is another one at each attempt.
var refusal = regexp.MustCompile(`^Error creating: pods "[^"]*" is forbidden: `)

// reasonFailedCreate is the reason of the events that controllers emit when the API server refuses their pods.
const reasonFailedCreate = "FailedCreate"

// refusalTrouble is the trouble of a job whose pods the API server rejects with a message: its reason is a cause of gpuctl why.
func refusalTrouble(message string) Trouble {
	return Trouble{Reason: string(reason.CauseOfRefusal(message)), Message: message}
}

// deploymentRefusal is why the pods of a Deployment could not be created, zero if they could.
func deploymentRefusal(deployment *appsv1.Deployment) Trouble {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return refusalTrouble(condition.Message)
		}
	}
	return Trouble{}
}

// recordRefusal records the rejection of pods that is the job's trouble.
func (j *Job) recordRefusal(refused Trouble) {
	if refused.Reason != "" && j.Trouble == refused {
		j.Refusal = refused.Message
	}
}
