package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestBrokenGPUsOfJobs has a job on some nodes, on each of which one card is broken that it holds, and one that it does not.
func TestBrokenGPUsOfJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes     int
		forbidden bool
		ended     bool
		gone      bool
		want      int
		requests  string
	}{
		"on one node":               {nodes: 1, want: 1, requests: "get"},
		"on eight nodes":            {nodes: 8, want: 8, requests: "get get get get get get get get"},
		"on more":                   {nodes: 9, want: 9, requests: "list"},
		"the user may not read one": {nodes: 1, forbidden: true, requests: "get"},
		"nor list them":             {nodes: 9, forbidden: true, requests: "list"},
		"its pods have ended":       {nodes: 2, ended: true},
		"its nodes are gone":        {nodes: 2, gone: true, requests: "get get"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			job := JobDetail{}
			for i := range tc.nodes {
				node := fmt.Sprintf("n%d", i)
				cards := fixture.Cards(node, 1000, 1000, 1000).Unhealthy(0, 2).Annotation(t)
				if !tc.gone {
					if err := client.Tracker().Add(fixture.Node(node).GPUs(3, "A").Annotate(names.AnnotationInventory, cards).Obj()); err != nil {
						t.Fatal(err)
					}
				}
				pod := Pod{Name: "pod-" + node, Node: node, GPUs: []gpu.Device{{UUID: fixture.UUID(node, 0)}, {UUID: fixture.UUID(node, 1), Index: 1}}}
				if tc.ended {
					pod.status = StatusSucceeded
				}
				job.Pods = append(job.Pods, pod)
			}
			asked := ""
			client.PrependReactor("*", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if asked != "" {
					asked += " "
				}
				asked += action.GetVerb()
				return tc.forbidden, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "", nil)
			})
			jobs := []JobDetail{job}
			if err := NewReader(client).FillDevices(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
			if asked != tc.requests {
				t.Errorf("it asked %q, want %q", asked, tc.requests)
			}
			if len(jobs[0].Broken) != tc.want {
				t.Fatalf("got %+v, want %d", jobs[0].Broken, tc.want)
			}
			for i, got := range jobs[0].Broken {
				node := fmt.Sprintf("n%d", i)
				if got.Pod != "pod-"+node || got.Node != node || got.UUID != fixture.UUID(node, 0) || got.Message == "" || got.Advice == "" {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
}

// TestBrokenGPUsOfNodes: all of them, whoever holds them, with what the inventory says.
func TestBrokenGPUsOfNodes(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	cards := gpu.Inventory{GPUs: []gpu.GPU{{UUID: "a", Health: "TooHot", Since: at}, {UUID: "b", Index: 1, Health: gpu.Healthy}}}
	text, err := cards.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got := brokenGPUsOn(fixture.Node("n").GPUs(2, "A").Annotate(names.AnnotationInventory, text).Obj())
	want := []BrokenGPU{{Node: "n", UUID: "a", Health: "TooHot", Message: "is slowed down by heat", Since: at, Advice: "see to the cooling of the node"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
}

// TestSlicesOfJobs: which slices a pod has is asked for where its pods have any.
func TestSlicesOfJobs(t *testing.T) {
	slices := []gpu.Slice{
		{UUID: "MIG-a", Profile: "1g.10gb", ParentUUID: "GPU-0", Health: "Lost", Pod: "uid-1"}, {UUID: "MIG-b", Profile: "1g.10gb", ParentUUID: "GPU-0", Health: "Lost"},
	}
	text, err := gpu.EncodeSlices(slices)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(fixture.Node("n").Annotate(names.AnnotationSlices, text).Obj())
	sliced := fixture.Pod("p").Obj()
	sliced.UID, sliced.Spec.NodeName = "uid-1", "n"
	sliced.Spec.Containers[0].Resources.Requests = corev1.ResourceList{names.ResourceMIGPrefix + "1g.10gb": resource.MustParse("1")}
	plain := fixture.Pod("q").Obj()
	plain.UID, plain.Spec.NodeName = "uid-2", "n"
	for _, pod := range []*corev1.Pod{sliced, plain} {
		pod.Labels = map[string]string{names.LabelJobType: "compute", names.LabelJob: "plain"}
	}
	sliced.Labels[names.LabelJob] = "mixed"
	other := plain.DeepCopy()
	other.Name, other.Labels = "r", sliced.Labels
	jobs := BuildDetails(&snapshot.Snapshot{Pods: []corev1.Pod{*sliced, *plain, *other}})
	if !jobs[0].HasMIGSlices() || jobs[1].HasMIGSlices() {
		t.Errorf("sliced are %v and %v, want the first job alone", jobs[0].HasMIGSlices(), jobs[1].HasMIGSlices())
	}
	if err := NewReader(client).FillDevices(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices[:1], jobs[0].Pods[0].Slices); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if len(jobs[0].Pods[1].Slices) != 0 || len(jobs[0].Broken) != 1 || jobs[0].Broken[0].Pod != "p" || jobs[0].Broken[0].UUID != "GPU-0" {
		t.Errorf("got %+v, want its card told as broken", jobs[0])
	}
}

// TestSlicesOfAPodThatStarts are those that were chosen for it, until its node says which it has got: of the job and of the node.
func TestSlicesOfAPodThatStarts(t *testing.T) {
	text, err := gpu.EncodeSlices([]gpu.Slice{{UUID: "MIG-a", Profile: "1g.10gb", ParentUUID: "GPU-0", MemoryMiB: 9728, Health: "Lost"}})
	if err != nil {
		t.Fatal(err)
	}
	node := fixture.Node("n").Slices("1g.10gb", 1).Annotate(names.AnnotationSlices, text).Obj()
	starting := fixture.Pod("p").Slices("1g.10gb", 1).
		Annotate(names.AnnotationGPUDevices, `{"version":1,"slices":{"main":[{"uuid":"MIG-a","profile":"1g.10gb","card":"GPU-0","gpu":0}]}}`).Obj()
	starting.UID, starting.Spec.NodeName = "uid-1", "n"
	starting.Labels = map[string]string{names.LabelJobType: "compute", names.LabelJob: "job"}
	cluster := &snapshot.Snapshot{Nodes: []corev1.Node{*node}, Pods: []corev1.Pod{*starting}}
	jobs := BuildDetails(cluster)
	want := []gpu.Slice{{UUID: "MIG-a", Profile: "1g.10gb", ParentUUID: "GPU-0", Pod: "uid-1"}}
	if diff := cmp.Diff(want, jobs[0].Pods[0].Slices); diff != "" {
		t.Errorf("slices of a pod whose node may not be read (-want +got):\n%s", diff)
	}
	if err := NewReader(fake.NewClientset(node)).FillDevices(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	want[0].MemoryMiB, want[0].Health = 9728, "Lost"
	if diff := cmp.Diff(want, jobs[0].Pods[0].Slices); diff != "" || len(jobs[0].Broken) != 1 {
		t.Errorf("broken %+v, slices (-want +got):\n%s", jobs[0].Broken, diff)
	}
	if diff := cmp.Diff(want, Build(cluster).Nodes[0].Slices); diff != "" {
		t.Errorf("slices of the node (-want +got):\n%s", diff)
	}
}

// TestABrokenCardInMIGMode is told also where nobody has cut it yet.
func TestABrokenCardInMIGMode(t *testing.T) {
	node := fixture.Node("n").Annotate(names.AnnotationInventory, fixture.Cards("n", 81920).Unhealthy(0).Sliced("1g.10gb", 0, 0).Annotation(t)).Obj()
	got := Build(&snapshot.Snapshot{Nodes: []corev1.Node{*node}}).Nodes[0].Broken
	if len(got) != 1 || got[0].UUID != fixture.UUID("n", 0) {
		t.Errorf("broken are %+v, want the card", got)
	}
}
