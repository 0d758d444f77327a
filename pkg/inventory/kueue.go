package inventory

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// ReasonHeldByKueue is the reason of a job that Kueue keeps suspended until it admits it.
const ReasonHeldByKueue = "HeldByKueue"

// kueueQueue returns the queue of Kueue that holds a suspended Job back; "" for a Job that is in none, or that a user has paused.
func kueueQueue(job *batchv1.Job) string {
	if job.Annotations[names.AnnotationPausedAt] != "" {
		return ""
	}
	return job.Labels[names.LabelKueueQueue]
}

// kueueTrouble is the trouble of a job that Kueue holds back.
func kueueTrouble(queue string) Trouble {
	return Trouble{Reason: ReasonHeldByKueue, Message: fmt.Sprintf("Kueue holds it back in queue %s, and starts it when it admits it", queue)}
}
