package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
