package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// atKueue is a Workload in queue team-a for an object, made so many minutes after noon.
func atKueue(kind, name string, minutes string, change func(spec, status map[string]any)) unstructured.Unstructured {
	set := func(count int64, gpus, scheduler string) any {
		return map[string]any{"count": count, "template": map[string]any{"spec": map[string]any{"schedulerName": scheduler, "priorityClassName": "g8s-high",
			"containers": []any{map[string]any{"name": "main", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": gpus}}}}}}}
	}
	spec := map[string]any{"queueName": "team-a", "active": true, "podSets": []any{set(1, "0", names.SchedulerName), set(3, "8", names.SchedulerName)}}
	status := map[string]any{}
	if change != nil {
		change(spec, status)
	}
	return unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": kind + "-" + name, "namespace": "team", "creationTimestamp": "2026-11-01T12:" + minutes + ":00Z",
			"ownerReferences": []any{map[string]any{"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": "uid-of-" + name, "controller": true}}},
		"spec": spec, "status": status,
	}}
}

func isTrue(kind string) func(spec, status map[string]any) {
	return func(_, status map[string]any) {
		status["conditions"] = []any{map[string]any{"type": kind, "status": "True"}}
	}
}

// TestWorkloadsThatKueueHoldsBack lists those that have no pods, and says of all where they stand.
func TestWorkloadsThatKueueHoldsBack(t *testing.T) {
	urgent := func(spec, _ map[string]any) { spec["priority"] = int64(7) }
	inactive := func(spec, _ map[string]any) { spec["active"] = false }
	other := func(spec, _ map[string]any) {
		spec["podSets"] = []any{map[string]any{"count": int64(1), "template": map[string]any{"spec": map[string]any{"containers": []any{}}}}}
	}
	gated := owned("StatefulSet", "web", map[string]string{names.LabelKueueQueue: "team-a"}, pod("web-0", "", "4", corev1.PodPending))
	gated.UID = "uid-of-web"
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: kueueGate}}
	read := &snapshot.Snapshot{
		Pods: []corev1.Pod{rayNode("head", pod("ray-head", "n1", "1", corev1.PodRunning)), gated},
		Jobs: []batchv1.Job{nativeJob(func(j *batchv1.Job) {
			j.Spec.Suspend, j.Labels, j.UID = ptr.To(true), map[string]string{names.LabelKueueQueue: "team-a"}, "uid-of-ddp"
		})},
		KueueWorkloads: []unstructured.Unstructured{
			atKueue("Job", "ddp", "02", nil),
			atKueue("RayCluster", "first", "05", urgent),
			atKueue("JobSet", "set", "03", nil),
			atKueue("Pod", "web", "04", nil),
			atKueue("PyTorchJob", "off", "01", inactive),
			atKueue("RayJob", "checked", "01", isTrue("QuotaReserved")),
			atKueue("RayCluster", "ray", "01", isTrue("Admitted")),
			atKueue("MPIJob", "done", "01", isTrue("Finished")),
			atKueue("JobSet", "elsewhere", "06", other),
		},
	}
	type row struct {
		Kind, Name string
		Desired    int32
		GPUs       int64
		Message    string
	}
	const held, starts = "Kueue holds it back in queue team-a", ", and starts it when it admits it"
	var got []row
	for _, job := range Build(read).Jobs {
		if (job.Reason == ReasonHeldByKueue) != (job.Status == StatusPending) {
			t.Errorf("%s is %s: %s", job.Name, job.Status, job.Reason)
		}
		if held := job.Kueue; (held != nil) != (job.Reason == ReasonHeldByKueue) ||
			held != nil && (held.Queue != "team-a" || (held.Position > 0) != strings.Contains(job.Message, fmt.Sprintf("position %d of %d,", held.Position, held.Waiting))) {
			t.Errorf("%s stands at %+v, and its message is %q", job.Name, held, job.Message)
		}
		got = append(got, row{job.Kind, job.Name, job.Desired, job.GPUs, job.Message})
	}
	want := []row{
		{"RayJob", "checked", 4, 24, held + starts},
		{"Job", "ddp", 2, 8, held + ", position 2 of 5" + starts},
		{"RayCluster", "first", 4, 24, held + ", position 1 of 5" + starts},
		{"PyTorchJob", "off", 4, 24, held + starts},
		{"RayCluster", "ray", 1, 1, ""},
		{"JobSet", "set", 4, 24, held + ", position 3 of 5" + starts},
		{"StatefulSet", "web", 1, 4, held + ", position 4 of 5" + starts},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if of := KueueWorkloadOf(read.KueueWorkloads, &Build(read).Jobs[1]); of == nil || of.GetName() != "Job-ddp" {
		t.Errorf("the Workload of the Job is %v", of)
	}
}
