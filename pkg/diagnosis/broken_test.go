package diagnosis

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestBrokenGPUs is about jobs whose pods hold cards of a node, on which card 1 fell off the bus four minutes ago.
func TestBrokenGPUs(t *testing.T) {
	cards := gpu.Inventory{GPUs: []gpu.GPU{
		{UUID: "GPU-0", Index: 0, Health: gpu.Healthy},
		{UUID: "GPU-1", Index: 1, Health: "Xid79", Since: noon.Add(-4 * time.Minute)},
		{UUID: "GPU-2", Index: 2, Health: "Lost"},
	}}
	text, err := cards.Encode()
	if err != nil {
		t.Fatal(err)
	}
	host := node("n1", "p", 3).Annotate(names.AnnotationInventory, text).Obj()
	holding := func(uuids ...string) corev1.Pod {
		pod := on("n1", int64(len(uuids)), "train")
		assignment := gpu.Assignment{}
		for i, uuid := range uuids {
			assignment["main"] = append(assignment["main"], gpu.Device{UUID: uuid, Index: i})
		}
		text, err := assignment.Encode()
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations = map[string]string{names.AnnotationGPUDevices: text}
		pod.Status.Phase = corev1.PodRunning
		return pod
	}
	ended := holding("GPU-1")
	ended.Status.Phase = corev1.PodSucceeded
	crashing := holding("GPU-1")
	crashing.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
	lost := host.DeepCopy()
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	for name, tc := range map[string]struct {
		pod    corev1.Pod
		status inventory.Status
		node   *corev1.Node
		unread bool
		want   []reason.Cause
		says   string
	}{
		"it runs on one": {pod: holding("GPU-0", "GPU-1"), want: []reason.Cause{reason.BrokenGPU},
			says: "pod train-n1 holds 1 GPU that must not be used: GPU 1 (GPU-1) has fallen off the bus (XID 79), seen at 11:56, 4m ago"},
		"it runs on two": {pod: holding("GPU-1", "GPU-2"), want: []reason.Cause{reason.BrokenGPU},
			says: "holds 2 GPUs that must not be used: GPU 1 (GPU-1) has fallen off the bus (XID 79), seen at 11:56, 4m ago; GPU 2 (GPU-2) does not answer its driver any more"},
		"another's is broken":            {pod: holding("GPU-0")},
		"its pod has ended":              {pod: ended},
		"it keeps crashing on it":        {pod: crashing, status: inventory.StatusFailing, want: []reason.Cause{reason.BrokenGPU}, says: "fallen off"},
		"the node is lost as well":       {pod: holding("GPU-1"), node: lost, want: []reason.Cause{reason.NodeLost, reason.BrokenGPU}},
		"the nodes may not be read":      {pod: holding("GPU-1"), unread: true},
		"a pod that says nothing of its": {pod: on("n1", 1, "train")},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(tc.pod).with(func(f *Facts) {
				f.Job.Status = inventory.StatusRunning
				if tc.status != "" {
					f.Job.Status = tc.status
				}
				f.Cluster.Nodes = []corev1.Node{*host}
				if tc.node != nil {
					f.Cluster.Nodes = []corev1.Node{*tc.node}
				}
				if tc.unread {
					f.Cluster.Nodes, f.Cluster.Unread = nil, []snapshot.Part{snapshot.PartNodes}
				}
			})
			report := Diagnose(facts)
			var causes []reason.Cause
			for i := range report.Findings {
				causes = append(causes, report.Findings[i].Cause)
			}
			if diff := cmp.Diff(tc.want, causes); diff != "" {
				t.Fatalf("causes (-want +got):\n%s", diff)
			}
			if tc.says != "" && !strings.Contains(report.Findings[0].Text, tc.says) {
				t.Errorf("it says %q, want %q", report.Findings[0].Text, tc.says)
			}
		})
	}
}
