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
		reason string
		down   bool
	}{
		"it found no place before it died":  {dead, "Unschedulable", true},
		"it never looked":                   {dead, "Queued", true},
		"it has given its lease back":       {&snapshot.Leader{State: snapshot.NobodyLeads}, "Unschedulable", true},
		"the pod is past the scheduler":     {dead, "ErrImagePull", false},
		"a scheduler leads":                 {&snapshot.Leader{State: snapshot.Leads}, "Unschedulable", false},
		"a scheduler may run without lease": {&snapshot.Leader{State: snapshot.NeverLed}, "Unschedulable", false},
		"the lease may not be read":         {nil, "Unschedulable", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := inventory.Job{Trouble: inventory.Trouble{Reason: tc.reason, Message: "0 free"}}
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
