package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestAnAgentThatIsAway is named, with since when and what to do, and not the cards that kubelet does not offer without it.
func TestAnAgentThatIsAway(t *testing.T) {
	for name, tc := range map[string]struct {
		offers    int
		condition corev1.NodeCondition
		says      string
	}{
		"kubelet has noticed": {
			condition: corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "Serving"},
			says:      "on n1 it does not run: kubelet offers none of the GPUs that it found",
		},
		"a pod was rejected": {
			offers: 8, condition: corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: names.ReasonPodRejected},
			says: "on n1 it does not run since 3m: kubelet has rejected a pod",
		},
		"kubelet asks another plugin": {
			offers: 8, condition: corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: names.ReasonOtherPlugin, Message: "kubelet asks nvidia-gpu.sock"},
			says: "on n1 it says since 3m: kubelet asks nvidia-gpu.sock",
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := fixture.Node("n1").GPUs(8, "A").AllocatableGPUs(tc.offers).Obj()
			node.Annotations = map[string]string{names.AnnotationInventory: fixture.Cards("n1", 1<<10).Annotation(t)}
			tc.condition.Type, tc.condition.LastTransitionTime = names.ConditionAgentReady, metav1.NewTime(noon.Add(-3*time.Minute))
			node.Status.Conditions = append(node.Status.Conditions, tc.condition)
			pod := fixture.Pod("p").GPUs(1).Obj()
			pod.Spec.SchedulerName, pod.Status.Phase = names.SchedulerName, corev1.PodPending
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			report := Diagnose(Facts{
				Job: inventory.JobDetail{Job: inventory.Job{Status: inventory.StatusPending}}, Pods: []corev1.Pod{*pod},
				Cluster: snapshot.Snapshot{Nodes: []corev1.Node{*node}, Pods: []corev1.Pod{*pod}, Now: noon, Unread: []snapshot.Part{snapshot.PartLease}},
			})
			if report.Cause != reason.AgentAway || !strings.Contains(report.Findings[0].Text, tc.says) {
				t.Fatalf("cause %s, %q does not say %q", report.Cause, report.Findings[0].Text, tc.says)
			}
			if said := strings.Join(report.Findings[0].Advice, " "); !strings.Contains(said, "gpuctl describe node n1") || strings.Contains(said, "no pool has nodes") {
				t.Errorf("advice %q", said)
			}
		})
	}
}

// TestANodeThatIsKeptOff says why, until when, and never to tolerate what nobody may.
func TestANodeThatIsKeptOff(t *testing.T) {
	tests := map[string]struct {
		taint  corev1.Taint
		record nodestate.Record
		pool   names.PoolConstraints
		boots  bool // it has not been ready yet
		says   []string
	}{
		"suspect, and well again": {
			taint:  corev1.Taint{Key: names.TaintSuspect, Value: names.SuspectNotReady, Effect: corev1.TaintEffectNoSchedule},
			record: nodestate.Record{Failures: 2, Last: noon.Add(-time.Hour), Until: noon.Add(3 * time.Minute)},
			says:   []string{"is suspect: it was not ready, failure 2", "takes pods again in 3m if it stays well"},
		},
		"suspect, and not well": {
			taint:  corev1.Taint{Key: names.TaintSuspect, Value: names.SuspectCondition, Effect: corev1.TaintEffectNoSchedule},
			record: nodestate.Record{Failures: 1, Last: noon, Condition: "XIDFatal"},
			says:   []string{"its condition XIDFatal was true", "gpuctl describe node"},
		},
		"one whose machine starts": {
			taint: corev1.Taint{Key: names.TaintJoining, Effect: corev1.TaintEffectNoSchedule}, boots: true,
			says: []string{"machine n1 is starting", "wait: a machine takes pods when it has started"},
		},
		"not admitted": {
			taint: corev1.Taint{Key: names.TaintNotAdmitted, Effect: corev1.TaintEffectNoSchedule},
			pool:  names.PoolConstraints{Zones: []string{"z1"}},
			says:  []string{"not admitted by its pool: nothing says its zone, which must be one of z1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := fixture.Node("n1").GPUs(8, "A").Obj()
			node.Spec.Taints = []corev1.Taint{tc.taint}
			if tc.boots {
				node.Spec.Taints = append([]corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}, tc.taint)
				node.Status.Conditions = nil
			}
			text, err := tc.record.EncodeAnnotation()
			if err != nil {
				t.Fatal(err)
			}
			node.Annotations = map[string]string{names.AnnotationHealth: text}
			pool := names.GPUPool{Spec: names.GPUPoolSpec{Constraints: tc.pool}}
			pool.Name = names.DefaultPool
			pod := fixture.Pod("p").GPUs(1).Obj()
			pod.Spec.SchedulerName, pod.Status.Phase = names.SchedulerName, corev1.PodPending
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			report := Diagnose(Facts{
				Job: inventory.JobDetail{Job: inventory.Job{Status: inventory.StatusPending}}, Pods: []corev1.Pod{*pod},
				Cluster: snapshot.Snapshot{Nodes: []corev1.Node{*node}, Pods: []corev1.Pod{*pod}, GPUPools: []names.GPUPool{pool}, Now: noon, Unread: []snapshot.Part{snapshot.PartLease}},
			})
			if report.Cause != reason.KeptOff || len(report.Findings) == 0 || len(report.Findings[0].States) == 0 {
				t.Fatalf("got %+v", report)
			}
			said := report.Findings[0].Text + " " + strings.Join(report.Findings[0].Advice, " ")
			for _, want := range tc.says {
				if !strings.Contains(said, want) {
					t.Errorf("%q does not say %q", said, want)
				}
			}
			if strings.Contains(said, "tolerate") {
				t.Errorf("%q advises to tolerate what nobody may", said)
			}
		})
	}
}
