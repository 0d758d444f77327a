package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

func TestHeedLeader(t *testing.T) {
	dead := &snapshot.Leader{State: snapshot.LeaderDead, Silent: time.Minute}
	tests := map[string]struct {
		leader *snapshot.Leader
		cause  reason.Cause
		down   bool
	}{
		"it found no place before it died":  {dead, reason.Busy, true},
		"it never looked":                   {dead, reason.WaitingForTurn, true},
		"it has given its lease back":       {&snapshot.Leader{State: snapshot.NobodyLeads}, reason.Busy, true},
		"the pod is past the scheduler":     {dead, reason.ImagePull, false},
		"a scheduler leads":                 {&snapshot.Leader{State: snapshot.Leads}, reason.Busy, false},
		"a scheduler may run without lease": {&snapshot.Leader{State: snapshot.NeverLed}, reason.Busy, false},
		"the lease may not be read":         {nil, reason.Busy, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			trouble, node := inventory.Trouble{Reason: string(tc.cause), Message: "0 free"}, ""
			if tc.cause == reason.ImagePull {
				node = "n1"
			}
			job := inventory.Job{Trouble: trouble, Pods: []inventory.Pod{{Phase: string(corev1.PodPending), Node: node, Trouble: trouble}}}
			ReplaceByLeaderState(&job, tc.leader)
			if got := job.Reason == string(reason.SchedulerDown) && strings.Contains(job.Message, "running"); got != tc.down {
				t.Errorf("it says %s: %s", job.Reason, job.Message)
			}
		})
	}
}

// TestADeadSchedulerSpeaksAlone: what it said before, and what others hold, is nothing to go by until somebody looks again.
func TestADeadSchedulerSpeaksAlone(t *testing.T) {
	f := factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy), node("n1", "p", 8))
	f.Cluster.Pods = []corev1.Pod{on("n1", 8, "other")}
	if report := Diagnose(f); report.Cause != reason.Busy || report.Verdict == "" || len(report.NearMisses) == 0 {
		t.Fatalf("while it lives the report is %+v", report)
	}
	f.Cluster.Lease = dead(47 * time.Second)
	report := Diagnose(f)
	if len(report.Findings) != 1 || report.Cause != reason.SchedulerDown || report.Verdict != "" || len(report.NearMisses) > 0 {
		t.Errorf("when it is dead the report is %+v", report)
	}
}

// TestAProfileIsLikelyAbsent: that the scheduler runs is said only by its lease, and a leader that has just begun gets its time.
func TestAProfileIsLikelyAbsent(t *testing.T) {
	leads := func(since time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Cluster.Lease = dead(0)
			f.Cluster.Lease.Spec.AcquireTime = &metav1.MicroTime{Time: noon.Add(-since)}
		}
	}
	tests := map[string]struct {
		change func(*Facts)
		cause  reason.Cause
		says   string
	}{
		"it leads for long":           {leads(time.Hour), reason.OtherScheduler, "gpu-scheduler runs, and likely has no profile of that name, or it is still busy with others"},
		"it leads since a moment":     {leads(5 * time.Second), reason.WaitingForTurn, "has not looked at the pod yet"},
		"the lease may not be read":   {func(f *Facts) { f.Cluster.MarkUnread(snapshot.PartLease) }, reason.OtherScheduler, "or it does not run"},
		"the volume takes its time":   {func(f *Facts) { leads(time.Hour)(f); f.Pods[0].Status.NominatedNodeName = "n1" }, reason.WaitingForTurn, "has not looked at the pod yet"},
		"another got a place just so": {func(f *Facts) { leads(time.Hour)(f); f.Cluster.Pods = []corev1.Pod{placedAt(noon)} }, reason.WaitingForTurn, "has not looked at the pod yet"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := refused(fixture.Pod("p").GPUs(4).Pool("p"), "")
			pod.Status.Conditions, pod.Spec.SchedulerName, pod.CreationTimestamp = nil, names.SchedulerPluginsName, metav1.NewTime(noon.Add(-2*time.Minute))
			pod.Status.Phase = corev1.PodPending
			report := Diagnose(factsOf(pod, node("n1", "p", 8)).with(tc.change))
			if report.Cause != tc.cause || !strings.Contains(report.Findings[0].Text, tc.says) {
				t.Errorf("it says %s: %s", report.Cause, report.Findings[0].Text)
			}
		})
	}
}

// placedAt is a pod to which KubeRay's profile gave a place at a time.
func placedAt(at time.Time) corev1.Pod {
	pod := on("n1", 1, "other")
	pod.Spec.SchedulerName = names.SchedulerPluginsName
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	return pod
}
