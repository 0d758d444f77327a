package queue

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestWhoeverWaitsForGPUsIsListed, whatever layer holds the job back, under the code that gpuctl why says.
func TestWhoeverWaitsForGPUsIsListed(t *testing.T) {
	waiting := func(reason reason.Cause) inventory.Trouble { return inventory.Trouble{Reason: string(reason)} }
	tests := map[string]struct {
		job  inventory.Job
		want reason.Cause // "" for a job that is not listed
	}{
		"a limit range":               {inventory.Job{Refusal: "maximum cpu usage per Container is 2, but limit is 4"}, reason.LimitRangeViolated},
		"a webhook":                   {inventory.Job{Refusal: `failed calling webhook "w": refused`}, reason.WebhookFailing},
		"no priority class":           {inventory.Job{Refusal: "no PriorityClass with name urgent was found"}, reason.NoSuchPriorityClass},
		"a quota that wants limits":   {inventory.Job{Refusal: "failed quota: team: must specify limits.cpu for: main"}, reason.QuotaExceeded},
		"anything else":               {inventory.Job{Refusal: "no"}, reason.RefusedByAPIServer},
		"a dead controller":           {inventory.Job{Trouble: waiting(reason.WaitingForControllers), Created: t0.Add(-time.Minute)}, reason.WaitingForControllers},
		"a job that was just created": {inventory.Job{Trouble: waiting(reason.WaitingForControllers), Created: t0}, ""},
		"another job":                 {inventory.Job{Trouble: waiting(reason.WaitsForJobs)}, reason.WaitsForJobs},
		"a gate":                      {inventory.Job{Trouble: waiting(reason.SchedulingGated)}, reason.SchedulingGated},
		"a user, who paused it":       {inventory.Job{Status: inventory.StatusSuspended, Trouble: waiting(reason.Suspended)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.job.Name, tc.job.Namespace, tc.job.GPUs, tc.job.Desired = "train", "team", 4, 1
			if tc.job.Status == "" {
				tc.job.Status = inventory.StatusPending
			}
			var got reason.Cause
			for _, e := range Build(&snapshot.Snapshot{}, []inventory.Job{tc.job}, nil, t0).Entries {
				if got = e.Cause; e.Position != 0 || e.ETA != nil {
					t.Errorf("it has place %d in the line", e.Position)
				}
			}
			if got != tc.want {
				t.Errorf("the cause is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNobodyForetellsTheEndOfAService for its own next replica: the replicas before it do not end for it.
func TestNobodyForetellsTheEndOfAService(t *testing.T) {
	replica := func(pod corev1.Pod, name string) corev1.Pod {
		return change(pod, func(p *corev1.Pod) {
			p.Name = name
			p.Labels = map[string]string{names.LabelJob: "chat", names.LabelJobType: "inference"}
		})
	}
	for kind, known := range map[string]bool{"inference": false, "training": true} {
		pods := []corev1.Pod{replica(anHourIn(on("n1", asks("a", "8", 5, 0))), "a"), replica(asks("b", "8", 5, 0), "b")}
		for i := range pods {
			pods[i].Labels[names.LabelJobType] = kind
		}
		objects := &snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: pods}
		q := Build(objects, nil, nil, t0)
		q.ApplyEstimates(q.EstimateStarts(objects, pastOf("", 61, 160), t0), t0)
		if has := slices.ContainsFunc(q.Entries, func(e Entry) bool { return e.Latest != nil }); has != known {
			t.Errorf("of a job of kind %s a start is foretold: %v, want %v", kind, has, known)
		}
	}
}
