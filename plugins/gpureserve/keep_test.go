package gpureserve

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// sharedNode has two cards of 1000 MiB, to be had whole or shared.
func sharedNode(name, cpu string) *corev1.Node {
	return st.MakeNode().Name(name).Label(names.LabelGPUType, "T4").Label(names.LabelNVIDIAMemory, "1000").
		Capacity(map[corev1.ResourceName]string{"cpu": cpu, "memory": "64Gi", names.ResourceGPU: "2", names.ResourceSharedGPU: "2000"}).Obj()
}

func info(node *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	nodeInfo := framework.NewNodeInfo(pods...)
	nodeInfo.SetNode(node)
	return nodeInfo
}

// taking is a pod that takes both cards of a node.
func taking(name, node string) *corev1.Pod { return onNode(name, node, "2") }

// onNode is a pod with some cards of a node, or that waits for them on "".
func onNode(name, node, gpus string) *corev1.Pod {
	return st.MakePod().Name(name).UID(name).Node(node).Req(map[corev1.ResourceName]string{"cpu": "2", names.ResourceGPU: gpus}).Obj()
}

// poolWith returns twelve nodes of two cards, of which the first are idle and the others taken as a whole.
func poolWith(idle int) (nodes []*corev1.Node, pods []*corev1.Pod) { return poolOf(12, idle) }

func poolOf(count, idle int) (nodes []*corev1.Node, pods []*corev1.Pod) {
	for i := range count {
		nodes = append(nodes, sharedNode(fmt.Sprintf("n%d", i), "16"))
		if i >= idle {
			pods = append(pods, taking(fmt.Sprintf("w%d", i), nodes[i].Name))
		}
	}
	return nodes, pods
}

// scene is a plugin that keeps a tenth of the nodes whole, and what is expected by a pod in a cluster where a pod leaves
// for each that comes.
type scene struct {
	*Plugin
	pod      *corev1.Pod
	expected *cycle.Expectation
}

func newScene(t testing.TB, pod *corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod) *scene {
	t.Helper()
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil,
		frameworkruntime.WithSnapshotSharedLister(cache.NewSnapshot(pods, nodes)))
	if err != nil {
		t.Fatal(err)
	}
	built, err := Factory(Dependencies{Devices: devices.NewCache()})(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{Plugin: built.(*Plugin), pod: pod}
	s.expected = &cycle.Expectation{Forecasts: forecasts(nodes, pods), Asked: observe.PodRequestOf(pod), KeepPerMille: 100}
	return s
}

// forecasts are of a cluster in which the last of the pods left and came again.
func forecasts(nodes []*corev1.Node, pods []*corev1.Pod) *fragmentation.Forecasts {
	pools := map[string]*fragmentation.Pool{}
	for _, node := range nodes {
		allocator, _, _ := devices.NewCache().NodeGPUs(info(node))
		shape := observe.ShapeOf(info(node), allocator)
		pool := gpu.PoolOf(node)
		if pools[pool] == nil {
			pools[pool] = &fragmentation.Pool{}
		}
		pools[pool].Add(&fragmentation.Offer{Pool: pool, Shape: shape, Cards: shape.Cards, Sizes: []int64{1000}})
	}
	var count fragmentation.PodCount
	for _, pod := range pods {
		count.Add(observe.PodRequestOf(pod))
	}
	count.EndRound()
	again := observe.PodRequestOf(pods[0])
	count.RemovePod(again)
	count.Add(again)
	count.EndRound()
	return (*fragmentation.Forecasts)(nil).NextForecasts(pools, nil, &count)
}

// filter has the pod pass PreFilter, as in an attempt of its own, and Filter for a node.
func (s *scene) filter(t testing.TB, node fwk.NodeInfo) *fwk.Status {
	t.Helper()
	cs := framework.NewCycleState()
	if s.expected != nil {
		cycle.WriteExpectation(cs, s.expected)
	}
	if _, status := s.PreFilter(t.Context(), cs, s.pod, nil); status.IsSkip() {
		return nil
	} else if !status.IsSuccess() {
		t.Fatal(status)
	}
	return s.Filter(t.Context(), cs, s.pod, node)
}

func TestFilterKeepsTheLastIdleNodesWhole(t *testing.T) {
	one := func() *st.PodWrapper {
		return st.MakePod().Name("p").UID("p").Req(map[corev1.ResourceName]string{"cpu": "1", names.ResourceGPU: "1"})
	}
	cordon := func(node *corev1.Node, _ *[]*corev1.Pod) { node.Spec.Unschedulable = true }
	tests := map[string]struct {
		pod  *corev1.Pod
		idle int
		// change is made to the second node, or adds pods.
		change func(*corev1.Node, *[]*corev1.Pod)
		want   bool // whether the first node is kept from the pod
	}{
		"the last one is kept from a pod of a part of it": {pod: one().Obj(), idle: 1, want: true},
		"and from one that shares a card": {idle: 1, want: true, pod: st.MakePod().Annotation(names.AnnotationGPUShare, "300Mi").
			Req(map[corev1.ResourceName]string{"cpu": "1", names.ResourceSharedGPU: "1"}).Obj()},
		"not from a pod that takes it as a whole":        {pod: taking("p", ""), idle: 1},
		"not from a pod without GPUs":                    {pod: st.MakePod().Req(map[corev1.ResourceName]string{"cpu": "1"}).Obj(), idle: 1},
		"not from a pod that would evict others instead": {pod: one().Priority(10).Obj(), idle: 1},
		"from one of priority that may not evict": {
			pod: one().Priority(10).PreemptionPolicy(corev1.PreemptNever).Obj(), idle: 1, want: true,
		},
		"nor from one that would evict pods of no worth": {pod: one().Obj(), idle: 1, change: func(_ *corev1.Node, pods *[]*corev1.Pod) {
			(*pods)[3].Spec.Priority = ptr.To[int32](-10)
		}},
		"nor from one of a gang":                   {pod: one().Label(names.LabelPodGroup, "gang").Obj(), idle: 1},
		"not from the pod that is nominated to it": {pod: one().NominatedNodeName("n0").Obj(), idle: 1},
		"another nomination does not help":         {pod: one().NominatedNodeName("n1").Obj(), idle: 1, want: true},
		"not while there are two":                  {pod: one().Obj(), idle: 2},
		"one that is cordoned is none":             {pod: one().Obj(), idle: 2, change: cordon, want: true},
		"nor is one that the pod does not tolerate": {pod: one().Obj(), idle: 2, want: true, change: func(node *corev1.Node, _ *[]*corev1.Pod) {
			node.Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
		}},
		"a taint that the pod tolerates makes no difference": {
			pod: one().Toleration("team").Obj(), idle: 2, change: func(node *corev1.Node, _ *[]*corev1.Pod) {
				node.Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
			},
		},
		"nor is one of another pool": {pod: one().Obj(), idle: 2, want: true, change: func(node *corev1.Node, _ *[]*corev1.Pod) {
			node.Labels[names.LabelPool] = "other"
		}},
		"nor is one without the CPU that a whole one takes": {pod: one().Obj(), idle: 2, want: true, change: func(_ *corev1.Node, pods *[]*corev1.Pod) {
			*pods = append(*pods, st.MakePod().Name("c").UID("c").Node("n1").Req(map[corev1.ResourceName]string{"cpu": "15"}).Obj())
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, pods := poolWith(tc.idle)
			if tc.change != nil {
				tc.change(nodes[1], &pods)
			}
			status := newScene(t, tc.pod, nodes, pods).filter(t, info(nodes[0]))
			if got := status.Code() == fwk.Unschedulable && status.Message() == string(reason.KeptForWhole.Text); got != tc.want || !got && !status.IsSuccess() {
				t.Errorf("Filter: %v, want it kept: %t", status, tc.want)
			}
		})
	}
}

// TestANodeThatOnlyADryRunMakesIdleIsNotKept has preemption try what happens when the pods of a node are gone.
func TestANodeThatOnlyADryRunMakesIdleIsNotKept(t *testing.T) {
	nodes, pods := poolWith(1)
	pod := onNode("p", "", "1")
	s := newScene(t, pod, nodes, pods)
	if status := s.filter(t, info(nodes[5])); !status.IsSuccess() {
		t.Errorf("a node without its victims: %v, want it not kept", status)
	}
	if status := s.filter(t, info(nodes[0])); status.IsSuccess() {
		t.Error("the idle node is not kept")
	}
}

// TestANodeIsNotKeptForever lets time pass in which nobody takes the idle node.
func TestANodeIsNotKeptForever(t *testing.T) {
	nodes, pods := poolWith(1)
	pod := onNode("p", "", "1")
	s := newScene(t, pod, nodes, pods)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return now }
	kept := func() bool {
		t.Helper()
		return !s.filter(t, info(nodes[0])).IsSuccess()
	}
	if !kept() {
		t.Fatal("the idle node is not kept")
	}
	now = now.Add(maxKeepTime - time.Second)
	if !kept() {
		t.Error("the node is not kept for as long as there is patience")
	}
	now = now.Add(time.Second)
	for range 2 { // it does not begin again with the next pod
		if kept() {
			t.Error("the node is kept for longer")
		}
	}
	s.idle.stopClock(nodes[0].Name)
	if !kept() {
		t.Error("the node is not kept when somebody has used it since")
	}
}

// TestPodsOfTwoKindsLookAtOneClock has two idle nodes kept, of which one is tainted: A tolerates that and B does not. A
// waits, and B is tried in between.
func TestPodsOfTwoKindsLookAtOneClock(t *testing.T) {
	nodes, pods := poolOf(24, 2)
	nodes[1].Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
	req := map[corev1.ResourceName]string{"cpu": "1", names.ResourceGPU: "1"}
	a := st.MakePod().Name("a").UID("a").Req(req).Toleration("team").Obj()
	b := st.MakePod().Name("b").UID("b").Req(req).Obj()
	forA, forB := newScene(t, a, nodes, pods), newScene(t, b, nodes, pods)
	forB.Plugin = forA.Plugin
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	forA.Now = func() time.Time { return now }
	for ; now.Sub(start) < maxKeepTime; now = now.Add(maxKeepTime / 3) {
		if forA.filter(t, info(nodes[1])).IsSuccess() {
			t.Fatalf("the tainted node is given to A after %s", now.Sub(start))
		}
		forB.filter(t, info(nodes[0]))
	}
	if !forA.filter(t, info(nodes[1])).IsSuccess() {
		t.Errorf("the tainted node is not given to A after %s", now.Sub(start))
	}
}

// TestTheClockOfANodeBeginsAgainWhenItIsUsed has the clocks of two nodes run, and perhaps one of the nodes used.
func TestTheClockOfANodeBeginsAgainWhenItIsUsed(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		use  func(*idleTimeouts)
		want sets.Set[string] // that are kept
	}{
		"nobody used them": {func(*idleTimeouts) {}, sets.New[string]()},
		"a pod left it":    {func(c *idleTimeouts) { c.handlePodDelete(onNode("x", "used", "1")) }, sets.New("used")},
		"a pod left it while the watch was broken": {func(c *idleTimeouts) {
			c.handlePodDelete(toolscache.DeletedFinalStateUnknown{Obj: onNode("x", "used", "1")})
		}, sets.New("used")},
		"a pod left that used no card": {func(c *idleTimeouts) { c.handlePodDelete(st.MakePod().Node("used").Obj()) }, sets.New[string]()},
		"a pod left that had no node":  {func(c *idleTimeouts) { c.handlePodDelete(onNode("x", "", "1")) }, sets.New[string]()},
		"an attempt sees a pod on it":  {func(c *idleTimeouts) { c.sweepClocks(func(node string) bool { return node != "used" }) }, sets.New("used")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &idleTimeouts{}
			c.expireNodes(sets.New("idle", "used"), start)
			tc.use(c)
			idle := sets.New("idle", "used")
			if c.expireNodes(idle, start.Add(maxKeepTime)); !idle.Equal(tc.want) {
				t.Errorf("kept: %v, want %v", sets.List(idle), sets.List(tc.want))
			}
		})
	}
}

// TestClocksAreOnlyOfIdleNodes has an attempt find nodes in use and gone.
func TestClocksAreOnlyOfIdleNodes(t *testing.T) {
	nodes, pods := poolWith(1)
	pod := onNode("p", "", "1")
	s := newScene(t, pod, nodes, pods)
	s.idle.expireNodes(sets.New(nodes[0].Name, nodes[5].Name, "gone"), time.Now())
	s.filter(t, info(nodes[0]))
	if got := slices.Sorted(maps.Keys(s.idle.since)); len(got) != 1 || got[0] != nodes[0].Name {
		t.Errorf("clocks run for %v, want %s alone", got, nodes[0].Name)
	}
}

// TestThePluginHearsOfPodsThatLeave deletes a pod that the plugin's informer has seen.
func TestThePluginHearsOfPodsThatLeave(t *testing.T) {
	client := fake.NewClientset(onNode("x", "used", "1"))
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &idleTimeouts{since: map[string]time.Time{"used": time.Now()}}
	if err := c.watchPods(factory); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	runs := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.since) > 0
	}
	// The informer misses what happens between its list and its watch, so the pod comes and goes until it has seen that.
	for deadline := time.Now().Add(10 * time.Second); runs() && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err := client.CoreV1().Pods("").Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods("").Create(t.Context(), onNode("x", "used", "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if runs() {
		t.Error("the clock of a node runs on after a pod left it")
	}
}

// TestNothingIsKeptUnlessPodsAreExpected has strategies that do not ask which pods are expected, and a setting that is 0.
func TestNothingIsKeptUnlessPodsAreExpected(t *testing.T) {
	nodes, pods := poolWith(1)
	s := newScene(t, onNode("p", "", "1"), nodes, pods)
	off := *s.expected
	off.KeepPerMille = 0
	for name, expected := range map[string]*cycle.Expectation{"nobody tells": nil, "none is to be kept": &off} {
		s.expected = expected
		if status := s.filter(t, info(nodes[0])); !status.IsSuccess() {
			t.Errorf("%s: %v, want nothing kept", name, status)
		}
	}
}

// BenchmarkFilter is what a node costs, where a node of the pool is kept: one that is in use, and the first idle one of an
// attempt, for which the idle ones among 5,000 are counted.
func BenchmarkFilter(b *testing.B) {
	nodes, pods := poolOf(5000, 1)
	pod := onNode("p", "", "1")
	s := newScene(b, pod, nodes, pods)
	b.Run("in use", func(b *testing.B) {
		node, cs := info(nodes[1], pods[0]), framework.NewCycleState()
		cycle.WriteExpectation(cs, s.expected)
		s.PreFilter(b.Context(), cs, pod, nil)
		for b.Loop() {
			s.Filter(b.Context(), cs, pod, node)
		}
	})
	b.Run("first idle", func(b *testing.B) {
		node := info(nodes[0])
		for b.Loop() {
			if status := s.filter(b, node); status.IsSuccess() {
				b.Fatal("the node is not kept")
			}
		}
	})
}
