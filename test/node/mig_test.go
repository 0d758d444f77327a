package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
)

// small and large are the resources of the slices of this test, and smallVariable what says in a container which small one it has.
const (
	small         = g8s.ResourceMIGPrefix + "1g.5gb"
	smallVariable = "G8S_MIG_1G_5GB_UUIDS"
	large         = g8s.ResourceMIGPrefix + "3g.20gb"
)

var profileOf = map[string]string{"MIG-a": "1g.5gb", "MIG-b": "1g.5gb", "MIG-c": "3g.20gb", "MIG-e": "1g.5gb"}

// sliceSeen waits for a container of a pod to tell which slice it sees.
func sliceSeen(t *testing.T, name string, part int, variable string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := inside.await(ctx, reportName(name, partName(part)), 1)
	if err != nil {
		t.Fatal(err, why(name))
	}
	return got[0].Env[variable]
}

// chosenSlices are those that the scheduler wrote on a pod.
func chosenSlices(t *testing.T, name string) []string {
	t.Helper()
	pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var uuids []string
	for _, slice := range gpu.ChosenSlices(pod) {
		uuids = append(uuids, slice.UUID)
	}
	return uuids
}

// TestDescribeShowsTheSlicesThatAPodSees puts two cards into MIG mode. The scheduler chooses slices of the one that is in use, where the
// agent would take the first of the node; the containers have to see just these, and gpuctl has to say which those were.
func TestDescribeShowsTheSlicesThatAPodSees(t *testing.T) {
	needNode(t)
	withCards(t, string(realnode.DefaultGPUs())+fmt.Sprintf(`cards:
- index: 6
  uuid: %s
  slices:
  - {uuid: MIG-e, profile: 1g.5gb, memoryMiB: 4864}
- index: 7
  uuid: %s
  slices:
  - {uuid: MIG-a, profile: 1g.5gb, memoryMiB: 4864}
  - {uuid: MIG-b, profile: 1g.5gb, memoryMiB: 4864}
  - {uuid: MIG-c, profile: 3g.20gb, memoryMiB: 19968}
`, uuid(6), uuid(7)))
	eventually(t, "kubelet to offer the slices", func(ctx context.Context) bool {
		return allocatable(ctx, small) == 3 && allocatable(ctx, large) == 1
	})

	held := map[string]string{} // by pod
	for _, asked := range []struct {
		name     string
		resource corev1.ResourceName
		variable string
		parts    []part
	}{
		{"slice-0", large, "G8S_MIG_3G_20GB_UUIDS", []part{{}}},
		{"slice-1", small, smallVariable, []part{{}}},
		{"slice-2", small, smallVariable, []part{{kind: initial}, {}}}, // one after the other
	} {
		pod := shape{parts: asked.parts}.pod(asked.name)
		pod.Labels = map[string]string{g8s.LabelJob: asked.name, g8s.LabelJobType: "compute"}
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				containers[i].Resources.Limits = corev1.ResourceList{asked.resource: *resource.NewQuantity(1, resource.DecimalSI)}
			}
		}
		if err := create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := remove(context.WithoutCancel(t.Context()), asked.name, false); err != nil {
				t.Error(err)
			}
		})
		for i := range asked.parts {
			held[asked.name] = sliceSeen(t, asked.name, i, asked.variable)
			if want := chosenSlices(t, asked.name); !slices.Equal(want, []string{held[asked.name]}) {
				t.Errorf("container %d of %s sees the slice %s, and the scheduler chose %v", i, asked.name, held[asked.name], want)
			}
		}
	}
	if seen := []string{held["slice-1"], held["slice-2"]}; !slices.Contains(seen, "MIG-a") || !slices.Contains(seen, "MIG-b") {
		t.Fatalf("the pods see the slices %v, want one each of the card that is in use", held)
	}
	eventually(t, "the node to tell who has which slice", func(ctx context.Context) bool {
		node, err := client.CoreV1().Nodes().Get(ctx, bed.Name, metav1.GetOptions{})
		return err == nil && len(slices.DeleteFunc(gpu.SlicesOf(node), func(s gpu.Slice) bool { return s.Pod == "" })) == 3
	})

	for name, sees := range held {
		job := described(t, name)
		if len(job.Pods) != 1 || len(job.Pods[0].Slices) != 1 || job.Pods[0].Slices[0].UUID != sees {
			t.Errorf("describe shows %+v of pod %s, which sees %s", job.Pods, name, sees)
		}
		if text := gpuctl(t, "describe", "job", name); !strings.Contains(text, sees) || !strings.Contains(text, profileOf[sees]) {
			t.Errorf("describe job %s does not show %s:\n%s", name, sees, text)
		}
	}
	var node inventory.Node
	if err := json.Unmarshal([]byte(gpuctl(t, "describe", "node", bed.Name, "-o", "json")), &node); err != nil {
		t.Fatal(err)
	}
	if len(node.Slices) != len(profileOf) {
		t.Errorf("describe node shows the slices %+v, want all", node.Slices)
	}
	if text := gpuctl(t, "describe", "node", bed.Name); !strings.Contains(text, namespace+"/slice-1") {
		t.Errorf("describe node does not show who has which slice:\n%s", text)
	}
}

// sliced is the node with a card in MIG mode that has one slice.
func sliced(slice string) string {
	return string(realnode.DefaultGPUs()) + fmt.Sprintf("cards: [{index: 7, uuid: %s, slices: [{uuid: %s, profile: 1g.5gb, memoryMiB: 4864}]}]\n", uuid(7), slice)
}

// TestAContainerStartsAgainWithTheSliceThatIsThere: somebody makes the slices of a card anew while a pod has one.
func TestAContainerStartsAgainWithTheSliceThatIsThere(t *testing.T) {
	needTime(t)
	withCards(t, sliced("MIG-old"))
	eventually(t, "kubelet to offer the slice", func(ctx context.Context) bool { return allocatable(ctx, small) == 1 })
	const name = "slice-anew"
	pod := shape{parts: []part{{}}}.pod(name)
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{small: *resource.NewQuantity(1, resource.DecimalSI)}
	pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--for=5s", "--exit=3", "--first="+sharedFolder+"/"+name)
	if err := create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(t.Context()), name, false); err != nil {
			t.Error(err)
		}
	})
	for start, slice := range []string{"MIG-old", "MIG-new"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := inside.await(ctx, reportName(name, partName(0)), start+1)
		cancel()
		if err != nil {
			t.Fatal(err, why(name))
		}
		if !slices.ContainsFunc(got, func(r probe.Report) bool { return r.Env[smallVariable] == slice }) {
			t.Errorf("the container sees %+v, want the slice %s", got, slice)
		}
		if err := bed.SetGPUs([]byte(sliced("MIG-new"))); err != nil {
			t.Fatal(err)
		}
	}
}
