package doctor

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/usage"
	"g8s.host/gpu-scheduler/test/fixture"
)

// waiting is a pod that the scheduler has found no node for.
func waiting() corev1.Pod {
	pod := fixture.Pod("p").GPUs(1).Obj()
	pod.Spec.SchedulerName, pod.Status.Phase = names.SchedulerName, corev1.PodPending
	return *pod
}

// TestTheSchedulerIsDeadForBothOrNone has gpuctl doctor and gpuctl why judge one lease.
func TestTheSchedulerIsDeadForBothOrNone(t *testing.T) {
	for silent := time.Duration(0); silent < 15*time.Second; silent += 500 * time.Millisecond {
		t.Run(fmt.Sprint(silent), func(t *testing.T) {
			facts := healthy()
			facts.Lease.Spec.RenewTime.Time = t0.Add(-silent)
			report := diagnosis.Diagnose(diagnosis.Facts{
				Job: inventory.JobDetail{Job: inventory.Job{Status: inventory.StatusPending}}, Pods: []corev1.Pod{waiting()}, Cluster: facts.Snapshot,
			})
			doctorSays, whySays := facts.checkScheduler().Status == Failed, report.Cause == reason.SchedulerDown
			if doctorSays != whySays {
				t.Errorf("doctor says that the scheduler is dead: %v, why: %v", doctorSays, whySays)
			}
		})
	}
}

// TestANodeIsOpenForAllOrNone has every command judge one node. A kubelet falls silent before Kubernetes writes the taint,
// and is back before it takes it away.
func TestANodeIsOpenForAllOrNone(t *testing.T) {
	silent := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	tests := map[string]struct {
		change func(*corev1.Node)
		// shows says whether lists count the node's GPUs as free: a taint is tolerated by some.
		shows bool
		cause reason.Cause
	}{
		"a node that is fine":                 {func(*corev1.Node) {}, true, ""},
		"cordoned":                            {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false, reason.Cordoned},
		"silent, and no taint says it yet":    {func(n *corev1.Node) { n.Status.Conditions = silent }, false, reason.NotReady},
		"back, and the taint still there":     {tainted(corev1.TaintNodeUnreachable), false, reason.NotReady},
		"with a taint that the job minds":     {tainted("maintenance"), true, reason.Tainted},
		"suspect":                             {tainted(names.TaintSuspect), false, reason.KeptOff},
		"not admitted":                        {tainted(names.TaintNotAdmitted), false, reason.KeptOff},
		"out of service":                      {tainted(corev1.TaintNodeOutOfService), false, reason.KeptOff},
		"silent, and tainted for it, as ever": {func(n *corev1.Node) { n.Status.Conditions = silent; tainted(corev1.TaintNodeNotReady)(n) }, false, reason.NotReady},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := fixture.Node("n").GPUs(8, "A").Obj()
			tc.change(node)
			pod := waiting()
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			cluster := &snapshot.Snapshot{Nodes: []corev1.Node{*node}, Pods: []corev1.Pod{pod}, Now: t0, Lease: healthy().Lease}

			row, top := inventory.Build(cluster).Nodes[0], usage.Build(cluster, gpumetrics.Samples{}).Nodes[0]
			if row.IsSchedulable() != tc.shows || top.Schedulable != tc.shows || (row.GPUs.Free > 0) != tc.shows || (top.Free > 0) != tc.shows {
				t.Errorf("get nodes shows %d free GPUs, top nodes %d, want some: %v", row.GPUs.Free, top.Free, tc.shows)
			}
			why := diagnosis.Diagnose(diagnosis.Facts{
				Job: inventory.JobDetail{Job: inventory.Job{Status: inventory.StatusPending}}, Pods: []corev1.Pod{pod}, Cluster: *cluster,
			})
			if tc.cause != "" && why.Cause != tc.cause || tc.cause == "" && why.Cause != reason.RoomNow {
				t.Errorf("why says %s, want %s", why.Cause, tc.cause)
			}
			if entry := queue.Build(cluster, nil, nil, t0).Entries[0]; entry.Cause != tc.cause || (entry.ETA != nil) != (tc.cause == "") {
				t.Errorf("queue says %q and starts %v, want %q", entry.Cause, entry.ETA, tc.cause)
			}
			facts := Facts{Snapshot: *cluster}
			if open := facts.checkPools().Status == OK; open != (tc.cause == "") {
				t.Errorf("doctor says that the pool has an open node: %v", open)
			}
		})
	}
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}
