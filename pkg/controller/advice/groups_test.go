package advice

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"g8s.host/gpu-scheduler/pkg/gang"
)

// TestRecognizedGangsAreGangsOfASimulation with those of their members that run already.
func TestRecognizedGangsAreGangsOfASimulation(t *testing.T) {
	template := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "main", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "8"}}}}}}}}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
		"metadata": map[string]any{"name": "train", "namespace": "team", "annotations": map[string]any{"g8s.host/topology": "required=rack"}},
		"spec": map[string]any{"replicatedJobs": []any{
			map[string]any{"name": "a", "template": template}, map[string]any{"name": "b", "replicas": int64(2), "template": template}}},
	}}
	member := func(name, part string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{
			"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": part},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "train-" + part + "-0", Controller: ptr.To(true)}}}}
	}
	alone := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "alone"}}
	s := Situation{Waiting: Waiting{Pods: []corev1.Pod{member("a", "a"), member("b", "b"), alone}}, Pods: []corev1.Pod{member("c", "b"), alone}}
	r := &Reconciler{Live: fake.NewClientBuilder().WithObjects(set).Build()}
	if err := r.readGroups(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range append(s.Waiting.Pods, s.Pods...) {
		group, _ := gang.NamedGroup(&pod)
		got = append(got, pod.Name+" "+group.Name)
	}
	if diff := cmp.Diff([]string{"a jobset.train", "b jobset.train", "alone ", "c jobset.train", "alone "}, got); diff != "" {
		t.Errorf("pods and their PodGroups (-want +got):\n%s", diff)
	}
	if len(s.Groups) != 1 {
		t.Fatalf("%d PodGroups", len(s.Groups))
	}
	least, several, ok := gang.ReadLabelled(&s.Groups[0])
	if least != 3 || !several || !ok || s.Groups[0].GetAnnotations()["g8s.host/topology"] != "required=rack" {
		t.Errorf("the PodGroup is %v", s.Groups[0].Object)
	}
}
