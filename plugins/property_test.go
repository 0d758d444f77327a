package plugins_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhatFilterAcceptsReserveServes draws 100,000 nodes with pods of every kind on them and on their way: wherever
// kube-scheduler's framework lets a pod through our Filter, alone and beside the pods nominated there, our Reserve has
// cards for it.
func TestWhatFilterAcceptsReserveServes(t *testing.T) {
	snapshots := 100_000
	if testing.Short() {
		snapshots = 5_000
	}
	r, b := rand.New(rand.NewPCG(1, 7)), newBed(t)
	accepted, refused, beside := 0, 0, 0
	for i := 0; i < snapshots && !t.Failed(); i++ {
		node, pods := randomNode(t, r, i)
		info := b.set(t, []*corev1.Node{node}, pods)[0]
		b.nominated = nominatedPods(t, r, i)
		pod := fixture.RandomPod(r, fmt.Sprintf("pod-%d", i))
		state := framework.NewCycleState()
		if _, status, _ := b.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
			t.Fatalf("PreFilter: %v", status)
		}
		if status := b.RunFilterPluginsWithNominatedPods(t.Context(), state, pod, info); !status.IsSuccess() {
			refused++
			continue
		}
		accepted++
		if len(b.nominated) > 0 {
			beside++
		}
		if status := b.RunReservePluginsReserve(t.Context(), state, pod, node.Name); !status.IsSuccess() {
			t.Errorf("snapshot %d: Filter accepts the node and Reserve says %v\nnode %v\npods %v\npod %v", i, status, node, pods, pod)
		}
		b.RunReservePluginsUnreserve(t.Context(), state, pod, node.Name)
	}
	t.Logf("%d accepted, %d of them beside nominated pods, %d refused", accepted, beside, refused)
	if least := snapshots / 20; accepted < least || refused < least || beside < least {
		t.Error("the draw is too easy or too hard to show anything")
	}
}

// randomNode draws a node and the pods on it: some name their cards, some are of other schedulers and do not, some
// contradict each other, and some are malformed.
func randomNode(t *testing.T, r *rand.Rand, i int) (*corev1.Node, []*corev1.Pod) {
	name := fmt.Sprintf("node-%d", i%100) // names come again, with other cards
	cards := fixture.RandomCards(r, name)
	inventory := cards.Inventory()
	builder := fixture.Node(name).GPUs(len(inventory.GPUs), "").SharedGPUs(len(inventory.GPUs), 100)
	if r.IntN(4) > 0 {
		builder.Annotate(names.AnnotationInventory, cards.Annotation(t))
	}
	node := builder.Obj()
	reported, err := gpu.InventoryOf(node)
	if err != nil {
		t.Fatal(err)
	}
	allocator, err := gpu.NewAllocator(reported, nil)
	if err != nil {
		t.Fatal(err)
	}
	var used gpu.Used
	var pods []*corev1.Pod
	for j := range r.IntN(5) {
		pod := fixture.RandomPod(r, fmt.Sprintf("tenant-%d-%d", i, j))
		pod.Spec.NodeName = name
		switch r.IntN(8) {
		case 0: // of another scheduler
		case 1:
			pod.Annotations[names.AnnotationGPUDevices] = "{"
		case 2: // as if nobody else were there
			annotate(t, pod, allocator, &gpu.Used{})
		default:
			annotate(t, pod, allocator, &used)
		}
		pods = append(pods, pod)
	}
	return node, pods
}

// annotate gives a pod cards, if there are any for it.
func annotate(t *testing.T, pod *corev1.Pod, allocator *gpu.Allocator, used *gpu.Used) {
	t.Helper()
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	allocation, reason := allocator.Allocate(used, &demand)
	if !reason.IsZero() {
		return
	}
	used.Add(&allocation.Holding)
	text, err := allocator.BuildAssignment(&demand, &allocation).Encode()
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations[names.AnnotationGPUDevices] = text
}

func nominatedPods(t *testing.T, r *rand.Rand, i int) []fwk.PodInfo {
	t.Helper()
	var infos []fwk.PodInfo
	for j := range max(r.IntN(5)-2, 0) {
		info, err := framework.NewPodInfo(fixture.RandomPod(r, fmt.Sprintf("nominated-%d-%d", i, j)))
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	return infos
}
