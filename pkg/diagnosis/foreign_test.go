package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// rayFacts are about a RayCluster: a head without GPUs, which runs, and workers of 8 GPUs that wait. size is what its object says, 0 for an object
// that may not be read.
func rayFacts(workers, size int, nodes ...*fixture.NodeBuilder) Facts {
	labels := func(pod corev1.Pod, role string) corev1.Pod {
		pod.Labels = map[string]string{"ray.io/cluster": "ray", "ray.io/node-type": role}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "ray", Controller: ptr.To(true)}}
		return pod
	}
	head := labels(*fixture.Pod("ray-head").Pool("p").Obj(), "head")
	head.Namespace, head.Spec.NodeName = "team", "n1"
	head.Status.Phase = corev1.PodRunning
	pods := []corev1.Pod{head}
	for i := range workers {
		pods = append(pods, labels(refused(fixture.Pod("ray-worker-"+string(rune('a'+i))).GPUs(8).Pool("p"), "0/1 nodes are available: gang: no room."), "worker"))
	}
	details := inventory.BuildDetails(&snapshot.Snapshot{Pods: pods})
	facts := factsOf(pods[1], nodes...)
	facts.Job, facts.Pods, facts.Space = details[0], pods, &snapshot.Snapshot{}
	if source := gang.SourcesOf(&pods[1])[0]; size > 0 {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"headGroupSpec": map[string]any{}, "workerGroupSpecs": []any{map[string]any{
				"replicas": int64(size - 1), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
					"name": "main", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "8"}}}}}}}},
		}}}
		facts.Space.Objects = map[snapshot.ObjectRef]*unstructured.Unstructured{
			{Resource: source.Resource, Namespace: pods[1].Namespace, Name: source.Name}: object,
		}
	}
	return facts
}

func TestForeignWorkloadsAreExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		facts Facts
		cause reason.Cause
		text  string
	}{
		"room for one of two, the head asks for no GPUs": {
			rayFacts(2, 3, node("n1", "p", 8)), reason.GangTooLarge, "the nodes that suit the job take 1 of its 2 members, even when they are empty",
		},
		"one of two by the pods alone": {
			rayFacts(2, 0, node("n1", "p", 8)), reason.GangTooLarge, "take 1 of its 2 members",
		},
		"the others are yet to be made": {
			rayFacts(1, 4, node("n1", "p", 8), node("n2", "p", 8)), reason.GangTooLarge, "take 2 of its 3 members",
		},
		"others hold a node": {
			rayFacts(2, 3, node("n1", "p", 8), node("n2", "p", 8)).with(func(f *Facts) { f.Cluster.Pods = []corev1.Pod{on("n2", 8, "other")} }),
			reason.GangWaiting, "there is room for 1 of the 2 members of the job",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(tc.facts)
			if report.Kind != "RayCluster" || report.Job != "ray" || report.Cause != tc.cause || len(report.Findings) == 0 || !strings.Contains(report.Findings[0].Text, tc.text) {
				t.Fatalf("got %s %s, %s: %+v", report.Kind, report.Job, report.Cause, report.Findings)
			}
			for _, finding := range report.Findings {
				for _, step := range finding.Steps {
					if isOfJob(step) && !showsJob(step) && !strings.HasPrefix(step.Command, "kubectl -n team edit raycluster ray") {
						t.Errorf("it advises what only jobs of gpuctl can do: %+v", step)
					}
				}
			}
		})
	}
}

// TestAWorkloadThatIsNoGang asks for it on its object.
func TestAWorkloadThatIsNoGang(t *testing.T) {
	facts := rayFacts(2, 3, node("n1", "p", 8))
	for ref, object := range facts.Space.Objects {
		object.SetAnnotations(map[string]string{"g8s.host/gang": "off"})
		facts.Space.Objects[ref] = object
	}
	if startsTogether(&facts, &facts.Pods[1]) {
		t.Error("its pods start together")
	}
	facts.Space.Objects = nil
	if !startsTogether(&facts, &facts.Pods[1]) {
		t.Error("whose object may not be read is no gang")
	}
}
