package integration

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestASumThatOverflowsIsRefused submits the pod that makes a stock scheduler give GPUs away that do not exist.
func TestASumThatOverflowsIsRefused(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("node").GPUs(8, "A100-80G").Obj())
	text, err := os.ReadFile("testdata/overflow-pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var overflow corev1.Pod
	if err := yaml.UnmarshalStrict(text, &overflow); err != nil {
		t.Fatal(err)
	}
	e.createPods(&overflow)
	const want = "the sum of nvidia.com/gpu over all containers exceeds 9223372036854775807"
	if message := e.waitUnschedulable(overflow.Name); !strings.Contains(message, want) {
		t.Errorf("the scheduler says %q, want %q", message, want)
	}
	e.createPods(fixture.Pod("all").GPUs(8).Obj())
	e.waitBound("all")
	e.createPods(fixture.Pod("one-more").GPUs(1).Obj())
	e.waitUnschedulable("one-more")
}

// TestAnnotationsOfUsersAreChecked submits as an administrator, whom no policy of the API server stops.
func TestAnnotationsOfUsersAreChecked(t *testing.T) {
	shared := func(memory string) *fixture.PodBuilder { return fixture.Pod("pod").SharedGPUs(1, memory) }
	tests := map[string]struct {
		pod  *fixture.PodBuilder
		want []string
	}{
		"cards that the pod gave itself": {
			pod: fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUDevices,
				`{"version":1,"containers":{"main":[{"uuid":"GPU-node-0","index":0}]}}`),
			want: []string{names.AnnotationGPUDevices, "the scheduler's to write", "remove it"},
		},
		"cards that nobody can read": {
			pod:  fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUDevices, "{"),
			want: []string{names.AnnotationGPUDevices, "the scheduler's to write"},
		},
		"a share without a unit": {
			pod: shared("2"), want: []string{names.AnnotationGPUShare, `"2" is less than 1Mi`, "such as 2Gi"},
		},
		"a share in words": {
			pod: shared("two"), want: []string{names.AnnotationGPUShare, `"two" is no amount of memory`},
		},
		"a share beyond all cards": {
			pod: shared("1000Ti"), want: []string{names.AnnotationGPUShare, "more than any GPU has"},
		},
		"a number that takes for ever to read": {
			pod:  fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUMemoryMin, "1e999999999"),
			want: []string{names.AnnotationGPUMemoryMin, "no amount of memory"},
		},
		"a list of types with a hole": {
			pod:  fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUTypes, "A100-80G,,"),
			want: []string{names.AnnotationGPUTypes, "want types separated by commas"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.createNodes(fixture.Node("node").GPUs(8, "A100-80G").SharedGPUs(8, 100).
				Annotate(names.AnnotationInventory, fixture.Cards("node", 81920, 81920).Annotation(t)).Obj())
			e.createPods(tc.pod.Obj())
			message := e.waitUnschedulable("pod")
			for _, want := range tc.want {
				if !strings.Contains(message, want) {
					t.Errorf("the scheduler says %q, want %q", message, want)
				}
			}
		})
	}
}

// TestAMalformedInventoryIsIgnored: what is known without it is used, and the node's owners are told.
func TestAMalformedInventoryIsIgnored(t *testing.T) {
	e := newEnv(t)
	const metric = "gpu_scheduler_devices_malformed_inventories_total"
	before, _ := sum(scrape(t), metric, "", "")
	e.createNodes(fixture.Node("node").GPUs(2, "A100-80G").
		Annotate(names.AnnotationInventory, `{"version":1,"gpus":[{"uuid":"GPU-0","index":0,"health":"Healthy"}`).Obj())
	e.runOneByOne(fixture.Pod("pod").GPUs(2).Obj())
	for _, device := range e.cardsOf("pod")["main"] {
		if !strings.HasPrefix(device.UUID, "index-") {
			t.Errorf("the pod has card %s, want one that is only counted", device.UUID)
		}
	}
	e.waitEvent(corev1.ObjectReference{Kind: "Node", Namespace: metav1.NamespaceDefault, Name: "node"},
		"MalformedInventory", names.AnnotationInventory)
	if got, _ := sum(scrape(t), metric, "", ""); got != before+1 {
		t.Errorf("%s is %v, want %v", metric, got, before+1)
	}
}
