package diagnosis

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

func TestWhatKueueHoldsBack(t *testing.T) {
	const held = "Kueue holds it back in queue team-a, and starts it when it admits it"
	workload := func(active bool, conditions ...any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "job-ddp-1a2b3", "ownerReferences": []any{map[string]any{"kind": "Job", "name": "ddp", "uid": "ddp-uid"}}}, "spec": map[string]any{"active": active}, "status": map[string]any{"conditions": conditions},
		}}
	}
	condition := func(kind, status, message string) any {
		return map[string]any{"type": kind, "status": status, "message": message}
	}
	for name, tc := range map[string]struct {
		workloads []unstructured.Unstructured
		text      string
		command   string
	}{
		"its Workload may not be read": {text: held, command: "kubectl -n team get workloads.kueue.x-k8s.io"},
		"its queue has too little": {
			workloads: []unstructured.Unstructured{workload(true, condition("Admitted", "False", "no reservation"), condition("QuotaReserved", "False", "8 more GPUs needed"))},
			text:      held + ": 8 more GPUs needed", command: "kubectl -n team get workloads.kueue.x-k8s.io",
		},
		"its quota lacks GPUs": {
			workloads: []unstructured.Unstructured{workload(true, condition("QuotaReserved", "False",
				"couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"))},
			text: held + ": when 8 more of nvidia.com/gpu are unused in its quota of flavor h100", command: "kubectl -n team get workloads.kueue.x-k8s.io",
		},
		"a check is still open": {
			workloads: []unstructured.Unstructured{workload(true, condition("QuotaReserved", "True", "reserved"), condition("Admitted", "False", "check autoscaler is pending"))},
			text:      held + ": check autoscaler is pending", command: "kubectl -n team get workloads.kueue.x-k8s.io",
		},
		"it was set to be inactive": {
			workloads: []unstructured.Unstructured{workload(false)},
			text:      held + ": its Workload job-ddp-1a2b3 is set to be inactive", command: "kubectl -n team patch workloads.kueue.x-k8s.io job-ddp-1a2b3 --type=merge",
		},
		"conditions that make no sense": {workloads: []unstructured.Unstructured{workload(true, "x", map[string]any{"type": int64(7)})}, text: held, command: "kubectl -n team get"},
	} {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(Facts{
				Job: inventory.JobDetail{Job: inventory.Job{Name: "ddp", Namespace: "team", Kind: "Job", Status: inventory.StatusPending, Foreign: true, Object: inventory.ObjectRef{UID: "ddp-uid"},
					Trouble: inventory.Trouble{Reason: inventory.ReasonHeldByKueue, Message: held}}},
				Space: &snapshot.Snapshot{KueueWorkloads: tc.workloads},
			})
			if report.Cause != reason.HeldByKueue || len(report.Findings) != 1 || report.Findings[0].Text != tc.text {
				t.Fatalf("got %s: %+v", report.Cause, report.Findings)
			}
			steps := report.Findings[0].Steps
			if last := steps[len(steps)-1]; !strings.HasPrefix(last.Command, tc.command) {
				t.Errorf("it advises %q", last.Command)
			}
		})
	}
}
