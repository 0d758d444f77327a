package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// schedulerDown reports a missing scheduler, by its lease. Whatever a scheduler reported before it died, it will not process the pod again. A single
// scheduler may run without a lease: then a pod that stays unprocessed for a while shows that there is none.
func schedulerDown(f *Facts, pod *corev1.Pod) (Finding, bool) {
	switch {
	case !f.Cluster.HasPart(snapshot.PartLease) || f.Simulated:
		return Finding{}, false
	case f.Cluster.Lease == nil && (podVerdict(pod) != "" || f.Cluster.Now.Sub(pod.CreationTimestamp.Time) < slowScheduler):
		return Finding{}, false
	}
	return explainMissingLeader(f.Cluster.Leader())
}

// explainStoppedScheduler explains for a job whose pods are not looked at yet that no scheduler would look at them.
func explainStoppedScheduler(f *Facts) []Finding {
	if !f.Cluster.HasPart(snapshot.PartLease) || f.Cluster.Lease == nil || f.Simulated {
		return nil
	}
	stopped, isDown := explainMissingLeader(f.Cluster.Leader())
	if !isDown {
		return nil
	}
	return singleFinding(stopped)
}

// explainMissingLeader reports that the scheduler has no leader.
func explainMissingLeader(leader *snapshot.Leader) (Finding, bool) {
	switch {
	case leader.PlacesJobs():
		return Finding{}, false
	case leader.State == snapshot.LeaderDead:
		return schedulerDownFinding(phrase.Textf("no %s has been running for %s, so nobody looks at the pod", names.SchedulerName, durationText(leader.Silent))), true
	}
	return schedulerDownFinding(phrase.Textf("no %s is running, so nobody looks at the pod", names.SchedulerName)), true
}

// ReplaceByLeaderState replaces the scheduler's last message on a waiting job when the scheduler is dead, since the message is no longer verified. The leader
// is nil if the lease may not be read.
func ReplaceByLeaderState(job *inventory.Job, leader *snapshot.Leader) {
	if leader == nil || leader.State == snapshot.NeverLed || !job.AwaitsScheduler() {
		return
	}
	if finding, isDown := explainMissingLeader(leader); isDown {
		job.Trouble = inventory.Trouble{Reason: string(finding.Cause), Message: finding.Message.String()}
	}
}

// roomCauses are the causes that only reflect current use.
var roomCauses = []reason.Cause{
	reason.Busy, reason.Fragmented, reason.KeptWhole, reason.StartReservedForFirst, reason.WaitingForReservedStart, reason.GangWaiting, reason.CPUShort, reason.MemoryShort, reason.ResourceShort,
	reason.PodLimit,
}

// withoutRoomCauses removes the findings about room from those about nodes: room is evaluated only when the scheduler runs again.
func withoutRoomCauses(findings []Finding) []Finding {
	return slices.DeleteFunc(withoutRoomNow(findings), func(f Finding) bool { return slices.Contains(roomCauses, f.Cause) })
}

// slowScheduler is how long a scheduler without a lease may take to process a pod.
const slowScheduler = 5 * second

func schedulerDownFinding(says phrase.Text) Finding {
	look := "kubectl -n kube-system get deployment " + names.SchedulerName
	return Finding{
		Cause: reason.SchedulerDown, Message: says,
		Steps: []Step{{Action: reason.StartScheduler, Kind: "Deployment", Name: names.SchedulerName,
			Command: look, Message: phrase.Textf("have the administrators start it: %s", look)}},
	}
}
