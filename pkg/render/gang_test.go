package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// kindsOf names the kinds and names of objects.
func kindsOf(objects []client.Object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
	}
	return out
}

func TestGang(t *testing.T) {
	objects, _ := renderText(t, training+"resources: {nodes: 3, gpu: 8}\n", Options{Namespace: "n"})
	if diff := cmp.Diff([]string{"Job a", "Service svc-a", "PodGroup a"}, kindsOf(objects)); diff != "" {
		t.Fatalf("objects (-want +got):\n%s", diff)
	}
	job, service, group := objects[0].(*batchv1.Job), objects[1].(*corev1.Service), objects[2].(*unstructured.Unstructured)

	got := batchv1.JobSpec{
		CompletionMode: job.Spec.CompletionMode, Completions: job.Spec.Completions, Parallelism: job.Spec.Parallelism,
		BackoffLimit: job.Spec.BackoffLimit, BackoffLimitPerIndex: job.Spec.BackoffLimitPerIndex, MaxFailedIndexes: job.Spec.MaxFailedIndexes,
	}
	want := batchv1.JobSpec{
		CompletionMode: ptr.To(batchv1.IndexedCompletion), Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](3),
		BackoffLimitPerIndex: ptr.To[int32](3), MaxFailedIndexes: ptr.To[int32](0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	pod := job.Spec.Template
	if pod.Labels[names.LabelPodGroup] != group.GetName() || group.GetNamespace() != "n" {
		t.Errorf("the pods are in group %q, and the group is %s/%s", pod.Labels[names.LabelPodGroup], group.GetNamespace(), group.GetName())
	}
	if members, _, _ := unstructured.NestedInt64(group.Object, "spec", "minMember"); members != 3 {
		t.Errorf("the group wants %d members, want 3", members)
	}
	if pod.Spec.Subdomain != service.Name || service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the pods are in subdomain %q, the service is %+v", pod.Spec.Subdomain, service.Spec)
	}
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the service selects %s=%s, and the pods have %q", key, value, pod.Labels[key])
		}
	}
}

func TestHowAGangLiesIsOnItsPodGroup(t *testing.T) {
	for resources, want := range map[string]string{
		"nodes: 2, topology: {level: rack}":                                 "preferred=rack",
		"nodes: 2, topology: {level: nvlink, mode: required}":               "required=nvlink",
		"nodes: 2, topology: {level: example.com/row, mode: preferred}":     "preferred=example.com/row",
		"nodes: 2, topology: {level: rack, wait: 10m}":                      "preferred=rack;wait=10m0s",
		"nodes: 32, topology: {level: nvlink, mode: required, segment: 16}": "required=nvlink;segment=16",
		"nodes: 32, topology: {level: rack, segment: 8, wait: 10m}":         "preferred=rack;segment=8;wait=10m0s",
		"nodes: 2": "",
	} {
		objects, _ := renderText(t, training+"resources: {"+resources+"}\n", Options{})
		if got := objects[2].GetAnnotations()[names.AnnotationTopology]; got != want {
			t.Errorf("%s: the PodGroup says %q, want %q", resources, got, want)
		}
		if _, ok := objects[0].GetAnnotations()[names.AnnotationTopology]; ok {
			t.Errorf("%s: the Job says it, too", resources)
		}
	}
}

func TestVariablesOfAGang(t *testing.T) {
	const index = "the member's index"
	values := func(t *testing.T, text string) map[string]string {
		objects, _ := renderText(t, text, Options{})
		out := map[string]string{}
		for _, v := range podOf(t, objects[0]).Spec.Containers[0].Env {
			if _, twice := out[v.Name]; twice {
				t.Errorf("%s is set twice", v.Name)
			}
			out[v.Name] = v.Value
			if v.ValueFrom != nil && strings.Contains(v.ValueFrom.FieldRef.FieldPath, batchv1.JobCompletionIndexAnnotation) {
				out[v.Name] = index
			}
		}
		return out
	}
	cases := map[string]struct {
		text string
		want map[string]string
	}{
		"two nodes of eight GPUs": {training + "resources: {nodes: 2, gpu: 8}\n", map[string]string{
			"MASTER_ADDR": "a-0.svc-a", "MASTER_PORT": "29500", "NNODES": "2", "NODE_RANK": index, "NPROC_PER_NODE": "8",
			"WORLD_SIZE": "16", "RANK": index, "LOCAL_WORLD_SIZE": "8",
			"PET_MASTER_ADDR": "a-0.svc-a", "PET_MASTER_PORT": "29500", "PET_NNODES": "2", "PET_NODE_RANK": index, "PET_NPROC_PER_NODE": "8",
			"MPI_HOSTS": "a-0.svc-a:8,a-1.svc-a:8",
		}},
		"no GPU is one process a node, and what the author sets is kept": {
			strings.Replace(training, "image: b", "image: b, env: {RANK: 7, X: y}", 1) + "resources: {nodes: 2}\n", map[string]string{
				"MASTER_ADDR": "a-0.svc-a", "MASTER_PORT": "29500", "NNODES": "2", "NODE_RANK": index, "NPROC_PER_NODE": "1",
				"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",
				"PET_MASTER_ADDR": "a-0.svc-a", "PET_MASTER_PORT": "29500", "PET_NNODES": "2", "PET_NODE_RANK": index, "PET_NPROC_PER_NODE": "1",
				"MPI_HOSTS": "a-0.svc-a:1,a-1.svc-a:1", "RANK": "7", "X": "y",
			}},
		"distributed: none sets nothing": {
			strings.Replace(training, "image: b", "image: b, distributed: none", 1) + "resources: {nodes: 2, gpu: 8}\n", map[string]string{}},
		"one node needs nothing": {training + "resources: {nodes: 1, gpu: 8}\n", map[string]string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, values(t, tc.text)); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneNodeIsNoGang(t *testing.T) {
	objects, _ := renderText(t, training+"resources: {nodes: 1, gpu: 8}\n", Options{})
	plain, _ := renderText(t, training+"resources: {gpu: 8}\n", Options{})
	for _, o := range []client.Object{objects[0], plain[0]} {
		delete(o.GetAnnotations(), names.AnnotationSubmitted)
	}
	if diff := cmp.Diff(plain, objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
