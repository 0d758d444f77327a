package inventory

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// ReasonWaitsForJobs is the reason of a job that starts after others, which have not ended.
const ReasonWaitsForJobs = "WaitsForJobs"

// jobDependencies returns the jobs that a Job starts after, how they have to end, and those that it still waits for. A list longer than gpuctl ever
// writes is ignored.
func jobDependencies(job *batchv1.Job) (after string, jobs, waits []string) {
	after, list, _ := strings.Cut(job.Annotations[names.AnnotationDependsOn], "=")
	if jobs, _ = names.JobNames(list); len(jobs) == 0 {
		after = ""
	}
	if ptr.Deref(job.Spec.Suspend, false) {
		waits, _ = names.JobNames(job.Annotations[names.AnnotationWaitsFor])
	}
	return after, jobs, waits
}

// waitsForJobs is the trouble of a Job that waits for others; false for one that a user has paused.
func waitsForJobs(job *batchv1.Job) (Trouble, bool) {
	if job.Annotations[names.AnnotationPausedAt] != "" {
		return Trouble{}, false
	}
	if _, ok := names.JobNames(job.Annotations[names.AnnotationWaitsFor]); !ok {
		return Trouble{Reason: ReasonWaitsForJobs, Message: fmt.Sprintf(
			"nothing lets it start: annotation %s names more than %d jobs, or one by a name that no job has", names.AnnotationWaitsFor, names.MaxDependencies)}, true
	}
	after, _, waits := jobDependencies(job)
	if len(waits) == 0 {
		return Trouble{}, false
	}
	return Trouble{Reason: ReasonWaitsForJobs, Message: fmt.Sprintf("it starts when %s", EndingText(waits, after))}, true
}

// EndingText describes how jobs have to end: "a and b have succeeded".
func EndingText(jobs []string, after string) phrase.Text {
	last := jobs[len(jobs)-1]
	others := strings.Join(jobs[:len(jobs)-1], ", ")
	switch {
	case len(jobs) == 1 && after == names.AfterAny:
		return phrase.Textf("%s has ended", last)
	case len(jobs) == 1:
		return phrase.Textf("%s has succeeded", last)
	case after == names.AfterAny:
		return phrase.Textf("%s and %s have ended", others, last)
	}
	return phrase.Textf("%s and %s have succeeded", others, last)
}
