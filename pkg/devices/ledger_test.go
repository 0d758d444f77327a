package devices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// pod asks for whole GPUs.
func pod(uid string, gpus int) *st.PodWrapper {
	return st.MakePod().Name(uid).UID(uid).Container("image").
		Req(map[corev1.ResourceName]string{names.ResourceGPU: fmt.Sprint(gpus)})
}

// node reports cards of 80 GiB, of which those named are broken.
func node(t testing.TB, cards int, broken ...int) *corev1.Node {
	t.Helper()
	var inventory gpu.Inventory
	for i := range cards {
		inventory.GPUs = append(inventory.GPUs, gpu.GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, MemoryMiB: 81920, Health: gpu.Healthy})
	}
	for _, i := range broken {
		inventory.GPUs[i].Health = "Xid79"
	}
	text, err := inventory.Encode()
	if err != nil {
		t.Fatal(err)
	}
	n := counted(cards)
	n.Annotations = map[string]string{names.AnnotationInventory: text}
	return n
}

// counted tells only how many cards it has.
func counted(cards int) *corev1.Node {
	return st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{names.ResourceGPU: fmt.Sprint(cards)}).Obj()
}

func info(n *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	nodeInfo := framework.NewNodeInfo(pods...)
	nodeInfo.SetNode(n)
	return nodeInfo
}

// reserve chooses cards for a pod and returns the pod as the scheduler assumes it: on the node, without annotation.
func reserve(t testing.TB, l *Cache, p *st.PodWrapper, at fwk.NodeInfo) *corev1.Pod {
	t.Helper()
	demand, err := gpu.DemandOf(p.Obj())
	if err != nil {
		t.Fatal(err)
	}
	if reason := l.Reserve(p.Obj(), &demand, at); !reason.IsZero() {
		t.Fatalf("no cards for %s: %s", p.Obj().Name, reason.Detail())
	}
	return p.Node(at.Node().Name).Obj()
}

// bound is a pod as the API server has it after its binding.
func bound(t testing.TB, l *Cache, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	devices, _ := l.ChosenGPUs(p.UID, p.Spec.NodeName)
	p = p.DeepCopy()
	p.Annotations = map[string]string{names.AnnotationGPUDevices: devices}
	return p
}

func TestWhichCardsAreTaken(t *testing.T) {
	const cards = 4
	tests := map[string]struct {
		pods        func(t *testing.T, l *Cache) []*corev1.Pod
		want        gpu.Set
		wantUnknown int64
	}{
		"nobody is there": {pods: func(*testing.T, *Cache) []*corev1.Pod { return nil }},
		"a pod whose cards were chosen a moment ago holds them": {
			pods: func(t *testing.T, l *Cache) []*corev1.Pod {
				return []*corev1.Pod{reserve(t, l, pod("a", 2), info(node(t, cards)))}
			},
			want: 0b11,
		},
		"a choice counts only while the pod is on the node": {
			pods: func(t *testing.T, l *Cache) []*corev1.Pod {
				reserve(t, l, pod("a", 2), info(node(t, cards)))
				return nil
			},
		},
		"after a restart the annotation tells": {
			pods: func(t *testing.T, l *Cache) []*corev1.Pod {
				p := bound(t, l, reserve(t, l, pod("a", 2), info(node(t, cards))))
				l.ForgetPod("a")
				return []*corev1.Pod{p}
			},
			want: 0b11,
		},
		"a choice that was dropped leaves the pod with unknown cards": {
			pods: func(t *testing.T, l *Cache) []*corev1.Pod {
				p := reserve(t, l, pod("a", 2), info(node(t, cards)))
				l.ForgetPod("a")
				return []*corev1.Pod{p}
			},
			wantUnknown: 2,
		},
		"a choice made for another node says nothing here": {
			pods: func(t *testing.T, l *Cache) []*corev1.Pod {
				other := node(t, cards)
				other.Name = "other"
				p := reserve(t, l, pod("a", 2), info(other))
				p.Spec.NodeName = "n"
				return []*corev1.Pod{p}
			},
			wantUnknown: 2,
		},
		"a pod of another scheduler holds unknown cards": {
			pods:        func(*testing.T, *Cache) []*corev1.Pod { return []*corev1.Pod{pod("a", 3).Node("n").Obj()} },
			wantUnknown: 3,
		},
		"a malformed annotation names no cards": {
			pods: func(*testing.T, *Cache) []*corev1.Pod {
				return []*corev1.Pod{pod("a", 3).Node("n").Annotation(names.AnnotationGPUDevices, "{").Obj()}
			},
			wantUnknown: 3,
		},
		"a nominated pod holds the cards it would get": {
			pods: func(*testing.T, *Cache) []*corev1.Pod { return []*corev1.Pod{pod("a", 3).Obj()} },
			want: 0b111,
		},
		"of nominated pods the more important one chooses first, then by UID": {
			pods: func(*testing.T, *Cache) []*corev1.Pod {
				return []*corev1.Pod{pod("b", 2).Priority(1).Obj(), pod("a", 2).Priority(1).Obj(), pod("c", 1).Priority(2).Obj()}
			},
			want: 0b111, wantUnknown: 2, // c and a; b has to wait for somebody to leave
		},
		"a nominated pod waits for its victims and holds what it asks for": {
			pods: func(t *testing.T, l *Cache) []*corev1.Pod {
				return []*corev1.Pod{reserve(t, l, pod("a", 3), info(node(t, cards))), pod("b", 2).Obj()}
			},
			want: 0b111, wantUnknown: 2,
		},
		"a nominated pod that cannot be read never comes": {
			pods: func(*testing.T, *Cache) []*corev1.Pod { return []*corev1.Pod{pod("a", -1).Obj()} },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewCache()
			pods := tc.pods(t, l)
			used := &l.NodeView(info(node(t, cards), pods...)).Used
			if used.WholeGPUs() != tc.want || used.UnknownUse().Whole != tc.wantUnknown {
				t.Errorf("cards %v and %d unknown ones are taken, want %v and %d",
					used.WholeGPUs(), used.UnknownUse().Whole, tc.want, tc.wantUnknown)
			}
		})
	}
}

func TestReserveIsDeterministicAndUndone(t *testing.T) {
	l, at := NewCache(), info(node(t, 8), pod("x", 1).Node("n").Obj())
	a := reserve(t, l, pod("a", 2), at)
	first, _ := l.ChoiceOf("a")
	reserve(t, l, pod("a", 2), at)
	again, _ := l.ChoiceOf("a")
	reserve(t, l, pod("a", 2), info(at.Node(), pod("x", 1).Node("n").Obj(), a)) // the pod is in the snapshot already
	rehearsed, _ := l.ChoiceOf("a")
	for what, got := range map[string]Choice{"again": again, "with itself on the node": rehearsed} {
		if diff := cmp.Diff(first.Assignment, got.Assignment); diff != "" {
			t.Errorf("chosen %s (-first +later):\n%s", what, diff)
		}
	}
	l.ForgetPod("a")
	l.ForgetPod("a")
	if _, ok := l.ChoiceOf("a"); ok {
		t.Error("a choice that was undone is still there")
	}
}

func TestAViewIsMadeOnceForEachGeneration(t *testing.T) {
	l, at := NewCache(), info(node(t, 8), pod("x", 1).Node("n").Obj())
	view := l.NodeView(at)
	if l.NodeView(at) != view || l.NodeView(at.Snapshot()) != view {
		t.Error("the same generation has two views")
	}
	at.AddPodInfo(podInfo(t, pod("y", 1).Node("n").Obj()))
	if l.NodeView(at) == view {
		t.Error("another pod does not change the view")
	}
	view = l.NodeView(at)
	reserve(t, l, pod("y", 1), at)
	if l.NodeView(at) == view {
		t.Error("a choice for a pod on the node does not change the view")
	}
}

func podInfo(t *testing.T, p *corev1.Pod) fwk.PodInfo {
	t.Helper()
	podInfo, err := framework.NewPodInfo(p)
	if err != nil {
		t.Fatal(err)
	}
	return podInfo
}

func TestCardsKeepTheirHoldersWhenTheNodeChanges(t *testing.T) {
	l := NewCache()
	a := reserve(t, l, pod("a", 2), info(node(t, 4)))
	if got := l.NodeView(info(node(t, 4, 0), a)).Used.WholeGPUs(); got != 0b11 {
		t.Errorf("when a card broke, cards %v are taken, want those chosen", got)
	}
	if got := l.NodeView(info(counted(4), a)).Used.UnknownUse().Whole; got != 2 {
		t.Errorf("when the inventory is gone, %d cards are unknown, want the 2 that have other names now", got)
	}
	if got := l.NodeView(info(node(t, 4), a)).Used.WholeGPUs(); got != 0b11 {
		t.Errorf("when it is back, cards %v are taken, want those chosen", got)
	}
}

func TestEqualNodesShareAnAllocator(t *testing.T) {
	l, before := NewCache(), node(t, 4)
	first := l.AllocatorFor(before)
	heartbeat := before.DeepCopy()
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	if l.AllocatorFor(heartbeat) != first {
		t.Error("a heartbeat makes another allocator")
	}
	broken := l.AllocatorFor(node(t, 4, 1))
	if broken == first || broken.HealthyGPUs() != 0b1101 {
		t.Errorf("cards %v are healthy, want all but 1", broken.HealthyGPUs())
	}
	if l.AllocatorFor(before) != first {
		t.Error("the node before the change is read again, as each queueing hint would")
	}
}

func TestANodeThatIsGoneHasNoCards(t *testing.T) {
	view := NewCache().NodeView(framework.NewNodeInfo(pod("a", 1).Node("n").Obj()))
	demand, err := gpu.DemandOf(pod("b", 1).Obj())
	if err != nil {
		t.Fatal(err)
	}
	if _, reason := view.Allocate(&demand); reason.Code != gpu.NoGPUs {
		t.Errorf("reason %v, want %v", reason.Code, gpu.NoGPUs)
	}
}

func TestWhatSpeaksForTheCards(t *testing.T) {
	l, at := NewCache(), info(node(t, 8))
	sharing := st.MakePod().UID("s").Annotation(names.AnnotationGPUShare, "2Gi").
		Req(map[corev1.ResourceName]string{names.ResourceSharedGPU: "1"})
	for uid, want := range map[string]string{
		"one": "leaves 0 of the best sets of 8, 1 of 4 and 3 of 2 GPUs",
		"two": "across NUMA nodes, 100 % of the best that 2 GPUs of the node can have",
		"s":   "the best fit of memory, 2048 MiB of GPU 0",
	} {
		reserve(t, l, map[string]*st.PodWrapper{"one": pod("one", 1), "two": pod("two", 2), "s": sharing}[uid], at)
		if devices, got := l.ChosenGPUs(types.UID(uid), "n"); got != want || !strings.Contains(devices, "GPU-0") {
			t.Errorf("%s: %s chosen since %q, want %q", uid, devices, got, want)
		}
		if devices, reason := l.ChosenGPUs(types.UID(uid), "elsewhere"); devices != "" || reason != "" {
			t.Errorf("%s has %s on a node where it is not", uid, devices)
		}
	}
}

func TestCards(t *testing.T) {
	l := NewCache()
	if _, _, ok := l.NodeGPUs(info(counted(4))); ok {
		t.Error("a node that is only counted passes for one whose cards are known")
	}
	allocator, used, ok := l.NodeGPUs(info(node(t, 4), pod("a", 1).Node("n").Obj()))
	if !ok || len(allocator.Inventory().GPUs) != 4 || used.UnknownUse().Whole != 1 {
		t.Errorf("cards %v, used %+v, known %v", allocator, used, ok)
	}
	demand, err := gpu.DemandOf(pod("b", 4).Obj())
	if err != nil {
		t.Fatal(err)
	}
	if got := l.GPUShortage(&demand, info(node(t, 4), pod("a", 1).Node("n").Obj())); got.MissingGPUs() != 1 {
		t.Errorf("%d cards are short, want 1", got.MissingGPUs())
	}
}

// TestReadsOfNodes: each node counts once, however often it changes, so that nobody who is stuck looks as if they read.
func TestReadsOfNodes(t *testing.T) {
	l, reads := NewCache(), 0
	l.OnRead = func() { reads++ }
	for i := range 3 {
		l.NodeView(info(node(t, 2)))
		l.NodeView(info(node(t, 2), pod(fmt.Sprint("p", i), 1).Node("n").Obj()))
	}
	if reads != 1 {
		t.Errorf("%d reads of one node", reads)
	}
}
