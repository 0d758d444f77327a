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
	case !f.Cluster.Has(snapshot.PartLease) || f.Simulated:
		return Finding{}, false
	case f.Cluster.Lease == nil && (verdictOn(pod) != "" || f.Cluster.Now.Sub(pod.CreationTimestamp.Time) < slowScheduler):
		return Finding{}, false
	}
	return unled(f.Cluster.Leader())
}

// unled reports that the scheduler has no leader.
func unled(leader *snapshot.Leader) (Finding, bool) {
	switch {
	case leader.Places():
		return Finding{}, false
	case leader.State == snapshot.LeaderDead:
		return down(phrase.Of("no %s has been running for %s, so nobody looks at the pod", names.SchedulerName, span(leader.Silent))), true
	}
	return down(phrase.Of("no %s is running, so nobody looks at the pod", names.SchedulerName)), true
}

// HeedLeader replaces the scheduler's last message on a waiting job when the scheduler is dead, since the message is no longer verified. The leader
// is nil if the lease may not be read.
func HeedLeader(job *inventory.Job, leader *snapshot.Leader) {
	if leader == nil || leader.State == snapshot.NeverLed || !job.AwaitsScheduler() {
		return
	}
	if finding, isDown := unled(leader); isDown {
		job.Trouble = inventory.Trouble{Reason: string(finding.Cause), Message: finding.Says.String()}
	}
}

// ofRoom are the causes that only reflect current use.
var ofRoom = []reason.Cause{
	reason.Busy, reason.Fragmented, reason.KeptWhole, reason.PromisedToFirst, reason.WaitingForPromise, reason.GangWaiting, reason.CPUShort, reason.MemoryShort, reason.ResourceShort,
	reason.PodLimit,
}

// lasting removes the findings about room from those about nodes: room is evaluated only when the scheduler runs again.
func lasting(findings []Finding) []Finding {
	return slices.DeleteFunc(standing(findings), func(f Finding) bool { return slices.Contains(ofRoom, f.Cause) })
}

// slowScheduler is how long a scheduler without a lease may take to process a pod.
const slowScheduler = 5 * second

func down(says phrase.Text) Finding {
	look := "kubectl -n kube-system get deployment " + names.SchedulerName
	return Finding{
		Cause: reason.SchedulerDown, Says: says,
		Steps: []Step{{Action: reason.StartScheduler, Kind: "Deployment", Name: names.SchedulerName,
			Command: look, Says: phrase.Of("have the administrators start it: %s", look)}},
	}
}
