package inventory

import (
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
)

// Array is the progress of a job that runs its program once for each of many tasks. JSON keys are a contract.
type Array struct {
	// Tasks is how many there are, and AtOnce how many may run at a time.
	Tasks  int32 `json:"tasks"`
	AtOnce int32 `json:"atOnce"`
	// Succeeded and Failed are the numbers of tasks that ended so. A failed task that is retried counts in neither.
	Succeeded int32 `json:"succeeded"`
	Failed    int32 `json:"failed"`
	// Running tasks run now. Waiting tasks may run, and have no node yet for lack of room.
	Running int32 `json:"running"`
	Waiting int32 `json:"waiting"`
	// FailedTasks are the numbers of those that failed, such as 1,3-5.
	FailedTasks string `json:"failedTasks,omitempty"`
}

// buildArray is the progress of a Job whose pods are tasks, nil for any other Job.
func buildArray(job *batchv1.Job, pods []Pod) *Array {
	if !quota.IsArray(job) {
		return nil
	}
	out := &Array{
		Tasks: *job.Spec.Completions, AtOnce: min(ptr.Deref(job.Spec.Parallelism, 1), *job.Spec.Completions),
		FailedTasks: ptr.Deref(job.Status.FailedIndexes, ""),
	}
	// Kubernetes counts a pod some moments after it has ended.
	out.Succeeded = max(job.Status.Succeeded, countPods(pods, func(p Pod) bool { return p.Phase == string(corev1.PodSucceeded) }))
	out.Failed = countIndexes(out.FailedTasks)
	return out
}

// remainingTasks is how many tasks have not ended.
func (a *Array) remainingTasks() int32 { return max(a.Tasks-a.Succeeded-a.Failed, 0) }

// countRunningTasks counts the running and the waiting tasks, out of those that may run now.
func (a *Array) countRunningTasks(desired int32, pods []Pod) {
	a.Running = countPods(pods, isUp)
	a.Waiting = max(0, desired-countPods(pods, func(p Pod) bool {
		return p.Node != "" && p.status != StatusFailed && p.status != StatusTerminating
	}))
}

// judgeTasks decides the status of an array from the pods of its tasks. Tasks run independently: it is normal that some wait while others run, unless
// something is wrong with them.
func judgeTasks(pods []Pod, desired int32, creation Trouble) (Status, Trouble) {
	if status, trouble := worstTrouble(pods); status == StatusFailing && anyUp(pods) {
		return StatusDegraded, trouble // even if a quota rejects others
	}
	status, trouble := judgeMissing(pods, desired, creation)
	switch {
	case !anyUp(pods):
		return status, trouble
	case status == StatusFailing, trouble == creation && creation.Reason != "" && !strings.Contains(creation.Message, exceededQuota):
		return StatusDegraded, trouble
	}
	return StatusRunning, trouble
}

// RunsWhole reports whether a job runs with every pod that may run: none waits for a node.
func (j *Job) RunsWhole() bool {
	return j.Status == StatusRunning && (j.Array == nil || j.Array.Waiting == 0)
}

// ProgressText describes how far the array has come, and how many tasks run if others wait for room.
func (a *Array) ProgressText() phrase.Text {
	text := phrase.Textf("%d of %d done", a.Succeeded, a.Tasks)
	if a.Failed > 0 {
		text = text.Addf(", %d failed", a.Failed)
	}
	if a.Running > 0 && a.Waiting > 0 {
		text = text.Addf(", %d run, %d wait", a.Running, a.Waiting)
	}
	return text
}

// countIndexes counts what Kubernetes lists as 1,3-5,7.
func countIndexes(text string) int32 {
	var count int32
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseInt(first, 10, 32)
		if err != nil {
			continue
		}
		to := from
		if isRange {
			if to, err = strconv.ParseInt(last, 10, 32); err != nil || to < from {
				continue
			}
		}
		count += int32(to - from + 1)
	}
	return count
}

// jobTimeLimit is the time limit of a job, or of each run of a task of an array; 0 for no limit. The deadline of an array as a whole only serves to
// cancel it.
func jobTimeLimit(job *batchv1.Job, isArray bool) time.Duration {
	seconds := job.Spec.ActiveDeadlineSeconds
	if isArray {
		seconds = job.Spec.Template.Spec.ActiveDeadlineSeconds
	}
	return time.Duration(ptr.Deref(seconds, 0)) * time.Second
}

// withoutSucceeded removes the pods of succeeded tasks, which stay until the job is deleted.
func withoutSucceeded(pods []Pod) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.status == StatusSucceeded })
}
