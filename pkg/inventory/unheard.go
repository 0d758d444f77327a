package inventory

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// markUnheard says of the jobs that wait for a profile that no scheduler serves. It needs the time of the snapshot, and does nothing without it.
func markUnheard(jobs []Job, objects *snapshot.Snapshot) {
	if objects.Now.IsZero() {
		return
	}
	named, attention := map[types.UID]string{}, reason.AttentionTo(objects.Pods)
	for i := range objects.Pods {
		if pod := &objects.Pods[i]; attention.IsUnheard(pod, time.Time{}, objects.Now) {
			named[pod.UID] = pod.Spec.SchedulerName
		}
	}
	if len(named) == 0 {
		return
	}
	for i := range jobs {
		jobs[i].markUnheardPods(named)
	}
}

func (j *Job) markUnheardPods(named map[types.UID]string) {
	for i := range j.Pods {
		pod := &j.Pods[i]
		name, unheard := named[pod.UID]
		if !unheard {
			continue
		}
		before := pod.Trouble
		// The scheduler's lease is not read for lists, so that this holds of a scheduler that is down, too.
		pod.unheard, pod.Trouble = true, Trouble{Reason: string(reason.OtherScheduler), Message: fmt.Sprintf("no scheduler named %s has looked at the pod", name)}
		if j.Trouble == before {
			j.Trouble = pod.Trouble
		}
	}
}
