package gpudevices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

// nominator knows pods that are to come to a node.
type nominator struct {
	fwk.PodNominator
	pods []fwk.PodInfo
}

func (n *nominator) NominatedPodsForNode(string) []fwk.PodInfo { return n.pods }

// bed is a plugin on one node of 4 GPUs, with a client that keeps what was bound.
type bed struct {
	*Plugin
	client    *fake.Clientset
	nominator *nominator
	state     fwk.CycleState
}

func newBed(t testing.TB, epoch func() (string, bool), pods ...*corev1.Pod) *bed {
	t.Helper()
	node := st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{names.ResourceGPU: "4"}).Obj()
	return newBedOn(t, node, epoch, pods...)
}

func newBedOn(t testing.TB, node *corev1.Node, epoch func() (string, bool), pods ...*corev1.Pod) *bed {
	t.Helper()
	client, nominated := fake.NewClientset(), &nominator{}
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithPodNominator(nominated),
		frameworkruntime.WithSnapshotSharedLister(cache.NewSnapshot(pods, []*corev1.Node{node})),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)))
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := Factory(Dependencies{DeviceCache: devices.NewCache(), Epoch: epoch})(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	return &bed{plugin.(*Plugin), client, nominated, framework.NewCycleState()}
}

func pod(name string, gpus int) *st.PodWrapper {
	return st.MakePod().Name(name).UID(name).Namespace("ns").
		Req(map[corev1.ResourceName]string{names.ResourceGPU: fmt.Sprint(gpus)})
}

// reserve returns the cards that the plugin chooses for a pod.
func (b *bed) reserve(t testing.TB, p *corev1.Pod) gpu.Assignment {
	t.Helper()
	if status := b.Reserve(t.Context(), b.state, p, "n"); !status.IsSuccess() {
		t.Fatalf("Reserve: %v", status)
	}
	choice, _ := b.DeviceCache.ChoiceOf(p.UID)
	return choice.Assignment
}

func TestReserve(t *testing.T) {
	b := newBed(t, nil)
	want := gpu.Assignment{"con0": {{UUID: "index-0"}, {UUID: "index-1", Index: 1}}}
	p := pod("a", 2).Obj()
	p.Spec.Containers[0].Name = "con0"
	if diff := cmp.Diff(want, b.reserve(t, p)); diff != "" {
		t.Errorf("cards (-want +got):\n%s", diff)
	}
	b.Unreserve(t.Context(), nil, p, "n")
	if _, ok := b.DeviceCache.ChoiceOf("a"); ok {
		t.Error("the choice outlives Unreserve")
	}
	if got := b.reserve(t, st.MakePod().UID("cpu").Obj()); got != nil {
		t.Errorf("a pod without GPUs got %v", got)
	}
}

// TestReserveFaults: what Filter has let through and Reserve cannot serve is a fault, which is tried again. A
// rejection would wait for an event that need not come.
func TestReserveFaults(t *testing.T) {
	tests := map[string]struct {
		pod  *corev1.Pod
		node string
		want string
	}{
		"more cards than there are":   {pod("p", 5).Obj(), "n", "5 asked"},
		"a request nobody can read":   {pod("p", -1).Obj(), "n", "is GPUFilter enabled?"},
		"a node that nobody has seen": {pod("p", 1).Obj(), "elsewhere", "node elsewhere"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := newBed(t, nil).Reserve(t.Context(), framework.NewCycleState(), tc.pod, tc.node)
			if status.Code() != fwk.Error || !strings.Contains(status.Message(), tc.want) {
				t.Errorf("status %v, want an error with %q", status, tc.want)
			}
		})
	}
}

func TestReserveLeavesTheirCardsToNominatedPods(t *testing.T) {
	tests := map[string]struct {
		nominated *st.PodWrapper
		want      string
	}{
		"one as important chooses first":        {pod("a", 2), "index-2"},
		"one less important has to see":         {pod("a", 2).Priority(-1), "index-0"},
		"one that holds all gave its place up":  {pod("a", 4), "index-0"},
		"the pod itself is not in its own way":  {pod("p", 2), "index-0"},
		"nobody is nominated, all cards remain": {nil, "index-0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			if tc.nominated != nil {
				podInfo, err := framework.NewPodInfo(tc.nominated.Obj())
				if err != nil {
					t.Fatal(err)
				}
				b.nominator.pods = []fwk.PodInfo{podInfo}
			}
			for _, cards := range b.reserve(t, pod("p", 2).Obj()) {
				if cards[0].UUID != tc.want {
					t.Errorf("the first card is %s, want %s", cards[0].UUID, tc.want)
				}
			}
		})
	}
}

// planOf lets so many members of a gang go.
func planOf(members int) *cycle.GangPlan {
	plan := &cycle.GangPlan{}
	plan.SetDecision(time.Date(2026, 11, 22, 14, 10, 0, 0, time.UTC), members)
	return plan
}

func TestBind(t *testing.T) {
	epoch := func() (string, bool) { return "leader/7", true }
	off := func() (string, bool) { return "", false }
	p := pod("p", 1).Obj()
	p.Spec.Containers[0].Name = "train"
	const cards = `{"version":1,"containers":{"train":[{"uuid":"index-0","index":0}]}}`
	tests := map[string]struct {
		pod   *corev1.Pod
		epoch func() (string, bool)
		want  map[string]string
		plan  *cycle.GangPlan
	}{
		"cards, leadership and place of the decision are on the Binding": {p, epoch, map[string]string{names.AnnotationGPUDevices: cards, names.AnnotationEpoch: "leader/7", names.AnnotationDecision: "1/"}, nil},
		"without leader election, cards alone":                           {p, off, map[string]string{names.AnnotationGPUDevices: cards, names.AnnotationDecision: "1/"}, nil},
		"without a fence, cards alone":                                   {p, nil, map[string]string{names.AnnotationGPUDevices: cards, names.AnnotationDecision: "1/"}, nil},
		"a pod without GPUs is bound and fenced too": {
			st.MakePod().Name("p").UID("p").Namespace("ns").Obj(), epoch, map[string]string{names.AnnotationEpoch: "leader/7", names.AnnotationDecision: "1/"}, nil,
		},
		"of a member of a gang, the plan for all": {
			st.MakePod().Name("p").UID("p").Namespace("ns").Obj(), off,
			map[string]string{names.AnnotationGangPlan: "2026-11-22T14:10:00Z/4", names.AnnotationDecision: "1/"}, planOf(4),
		},
		"of a gang that was not let go, no plan": {
			st.MakePod().Name("p").UID("p").Namespace("ns").Obj(), off, map[string]string{names.AnnotationDecision: "1/"}, planOf(0),
		},
		"a pod of MIG slices has none of ours where the node names none": {
			st.MakePod().Name("p").UID("p").Namespace("ns").Req(map[corev1.ResourceName]string{names.ResourceMIGPrefix + "1g.10gb": "1"}).Obj(),
			nil, map[string]string{names.AnnotationDecision: "1/"}, nil,
		},
		"who decides about a pod knows its last change, before the informer says so": {
			st.MakePod().Name("p").UID("p").Namespace("ns").ResourceVersion("7").Obj(), nil, map[string]string{names.AnnotationDecision: "1/7"}, nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.epoch)
			var got *corev1.Binding
			b.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				got, _ = action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
				return true, nil, nil
			})
			b.reserve(t, tc.pod)
			if tc.plan != nil {
				cycle.WritePlan(b.state, tc.plan)
			}
			if status := b.Bind(t.Context(), b.state, tc.pod, "n"); !status.IsSuccess() {
				t.Fatalf("Bind: %v", status)
			}
			want := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p", Annotations: tc.want},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "n"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("binding (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBindWritesSlices that Reserve chose, beside those of a pod that is nominated to come first.
func TestBindWritesSlices(t *testing.T) {
	node := fixture.Node("n").GPUs(1, "A").Slices("1g.10gb", 2).
		Annotate(names.AnnotationInventory, fixture.Cards("n", 81920, 81920).Sliced("1g.10gb", 2, 1).Annotation(t)).Obj()
	p := fixture.Pod("p").GPUs(1).Slices("1g.10gb", 1).Obj()
	p.UID = "p"
	first := fixture.Pod("first").Slices("1g.10gb", 1).Obj()
	first.UID = "first"
	nominated, err := framework.NewPodInfo(first)
	if err != nil {
		t.Fatal(err)
	}
	b := newBedOn(t, node, nil)
	b.nominator.pods = []fwk.PodInfo{nominated}
	var got *corev1.Binding
	b.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		got, _ = action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		return true, nil, nil
	})
	b.reserve(t, p)
	if status := b.Bind(t.Context(), b.state, p, "n"); !status.IsSuccess() {
		t.Fatalf("Bind: %v", status)
	}
	const want = `{"version":1,"containers":{"main":[{"uuid":"GPU-n-0","index":0}]},` +
		`"slices":{"main":[{"uuid":"MIG-GPU-n-1-1","profile":"1g.10gb","card":"GPU-n-1","gpu":1}]}}`
	if devices := got.Annotations[names.AnnotationGPUDevices]; devices != want {
		t.Errorf("the binding has %s, want %s", devices, want)
	}
	three := fixture.Pod("three").Slices("1g.10gb", 3).Obj()
	three.UID = "three"
	status := b.Reserve(t.Context(), framework.NewCycleState(), three, "n")
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), "MIG slices of 1g.10gb") {
		t.Errorf("status %v, want the slices that are short", status)
	}
}

func TestBindNeedsAChoiceOnThatNode(t *testing.T) {
	b := newBed(t, nil)
	if status := b.Bind(t.Context(), b.state, pod("p", 1).Obj(), "n"); status.Code() != fwk.Error || !strings.Contains(status.Message(), "enable GPUDevices at reserve") {
		t.Errorf("Bind without Reserve: %v", status)
	}
	b.reserve(t, pod("p", 1).Obj())
	if status := b.Bind(t.Context(), b.state, pod("p", 1).Obj(), "elsewhere"); status.Code() != fwk.Error {
		t.Errorf("Bind to another node than Reserve's: %v", status)
	}
	for _, action := range b.client.Actions() {
		t.Errorf("the API server was asked to %s %s", action.GetVerb(), action.GetResource().Resource)
	}
}

func TestRejectsNoPod(t *testing.T) {
	if events, err := newBed(t, nil).EventsToRegister(t.Context()); err != nil || len(events) > 0 {
		t.Errorf("events %v, %v, want none: without any, a plugin is woken by none", events, err)
	}
}

// BenchmarkReserve chooses cards on one of many nodes, and gives them back.
func BenchmarkReserve(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			var pods []*corev1.Pod
			for i := range 3 {
				pods = append(pods, pod(fmt.Sprint("running", i), 1).Node("n").Obj())
			}
			bed, p, cycle := newBed(b, nil, pods...), pod("p", 1).Obj(), framework.NewCycleState()
			for i := range count - 1 {
				other := st.MakeNode().Name(fmt.Sprint("other", i)).Capacity(map[corev1.ResourceName]string{names.ResourceGPU: "4"}).Obj()
				info := framework.NewNodeInfo()
				info.SetNode(other)
				bed.DeviceCache.NodeView(info)
			}
			b.ReportAllocs()
			for b.Loop() {
				bed.reserve(b, p)
				bed.Unreserve(b.Context(), cycle, p, "n")
			}
		})
	}
}
