package gpuexplain

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/reason"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newPlugin(t testing.TB, recorder *explain.Recorder, pods []*corev1.Pod, nodes ...*corev1.Node) *Plugin {
	t.Helper()
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil,
		frameworkruntime.WithSnapshotSharedLister(schedulercache.NewSnapshot(pods, nodes)),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := Factory(Dependencies{Recorder: recorder, Now: func() time.Time { return noon }})(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin)
}

func gpus(count int) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{names.ResourceGPU: fmt.Sprint(count)}
}

func gpuNode(name, pool, gpuType string) *corev1.Node {
	return st.MakeNode().Name(name).Label(names.LabelPool, pool).Label(names.LabelGPUType, gpuType).Capacity(gpus(8)).Obj()
}

func waiting(pool string, count int) *st.PodWrapper {
	return st.MakePod().Namespace("team").Name("pod").UID("pod").Label(names.LabelPool, pool).Req(gpus(count))
}

func holder(node string, count int) *corev1.Pod {
	return st.MakePod().Name("on-" + node).UID("on-" + node).Node(node).Req(gpus(count)).Obj()
}

// status is what a plugin said of a node.
func status(code fwk.Code, plugin string, reasons ...string) *fwk.Status {
	return fwk.NewStatus(code, reasons...).WithPlugin(plugin)
}

func TestPostFilterCountsReasons(t *testing.T) {
	busy := status(fwk.Unschedulable, "GPUFilter", "too few free")
	cordoned := status(fwk.UnschedulableAndUnresolvable, "NodeUnschedulable", "cordoned")
	narrowed := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy plugin(s) [GPUFilter]")
	tests := map[string]struct {
		pod      *corev1.Pod
		holders  []*corev1.Pod
		nodes    []*corev1.Node
		statuses map[string]*fwk.Status
		absent   *fwk.Status
		want     explain.Attempt
	}{
		"nodes that no plugin saw are told apart by what their labels lack": {
			pod: waiting("a", 4).Annotation(names.AnnotationGPUTypes, "A100-80G").Obj(),
			nodes: []*corev1.Node{
				gpuNode("a1", "a", "A100-80G"), gpuNode("a2", "a", "T4"), gpuNode("b1", "b", "A100-80G"),
				gpuNode("b2", "b", "T4"), gpuNode("b3", "b", "T4"),
			},
			statuses: map[string]*fwk.Status{"a1": cordoned},
			absent:   narrowed,
			want: explain.Attempt{Nodes: 5, Reasons: []explain.Reason{
				{Text: string(reason.OtherInBoth.Text), Nodes: 2},
				{Text: "cordoned", Plugin: "NodeUnschedulable", Nodes: 1},
				{Text: string(reason.InAnotherPool.Text), Nodes: 1},
				{Text: string(reason.WithOtherType.Text), Nodes: 1},
			}},
		},
		"the nearest misses come first, and at most three": {
			pod: waiting("a", 4).Obj(),
			nodes: []*corev1.Node{
				gpuNode("n1", "a", ""), gpuNode("n2", "a", ""), gpuNode("n3", "a", ""), gpuNode("n4", "a", ""),
			},
			holders:  []*corev1.Pod{holder("n1", 8), holder("n2", 5), holder("n3", 6), holder("n4", 7)},
			statuses: map[string]*fwk.Status{"n1": busy, "n2": busy, "n3": busy, "n4": busy},
			want: explain.Attempt{
				Nodes:   4,
				Reasons: []explain.Reason{{Text: "too few free", Plugin: "GPUFilter", Nodes: 4}},
				NearMisses: []explain.NearMiss{
					{Node: "n2", Short: 1, Detail: "3 of 8 free, 1 short"},
					{Node: "n3", Short: 2, Detail: "2 of 8 free, 2 short"},
					{Node: "n4", Short: 3, Detail: "1 of 8 free, 3 short"},
				},
			},
		},
		"a node with GPUs enough that lacks memory is no near miss": {
			pod:      waiting("a", 4).Obj(),
			nodes:    []*corev1.Node{gpuNode("n1", "a", "")},
			statuses: map[string]*fwk.Status{"n1": status(fwk.Unschedulable, "NodeResourcesFit", "Insufficient memory", "Insufficient cpu")},
			want: explain.Attempt{Nodes: 1, Reasons: []explain.Reason{
				{Text: "Insufficient cpu", Plugin: "NodeResourcesFit", Nodes: 1},
				{Text: "Insufficient memory", Plugin: "NodeResourcesFit", Nodes: 1},
			}},
		},
		"a pod refused as such is refused by all nodes": {
			pod:    waiting("a", 4).Obj(),
			nodes:  []*corev1.Node{gpuNode("n1", "a", ""), gpuNode("n2", "a", "")},
			absent: status(fwk.UnschedulableAndUnresolvable, "VolumeBinding", "persistentvolumeclaim \"x\" not found"),
			want: explain.Attempt{Nodes: 2, Reasons: []explain.Reason{
				{Text: "persistentvolumeclaim \"x\" not found", Plugin: "VolumeBinding", Nodes: 2},
			}},
		},
		"a pool without nodes says where the nodes are": {
			pod:    waiting("c", 4).Obj(),
			nodes:  []*corev1.Node{gpuNode("n1", "a", ""), gpuNode("n2", "b", "")},
			absent: status(fwk.UnschedulableAndUnresolvable, "GPUFilter", "no such pool"),
			want: explain.Attempt{Nodes: 2, Reasons: []explain.Reason{
				{Text: "no such pool", Plugin: "GPUFilter", Nodes: 2}, {Text: string(reason.InAnotherPool.Text), Nodes: 2},
			}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := explain.NewRecorder(explain.DefaultLimits)
			plugin := newPlugin(t, recorder, tc.holders, tc.nodes...)
			absent := tc.absent
			if absent == nil {
				absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
			}
			result, status := plugin.PostFilter(t.Context(), nil, tc.pod, framework.NewNodeToStatus(tc.statuses, absent))
			if result != nil || status.Code() != fwk.Unschedulable || len(status.Reasons()) > 0 {
				t.Errorf("PostFilter returns %v and %v, want nothing that others could notice", result, status)
			}
			got, _ := recorder.Pod("team", "pod")
			tc.want.Time, tc.want.Result = noon, explain.Unschedulable
			if diff := cmp.Diff(tc.want, got.Last); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPostBind(t *testing.T) {
	parts := []explain.Part{{Name: "utilization", Weight: 40}}
	scored := framework.NewCycleState()
	scores := cycle.NewScores(2, parts)
	scores.Add("n1", 30, 30, 30)
	scores.Add("n2", 60, 60, 60)
	scored.Write(cycle.ScoresKey, scores)
	tests := map[string]struct {
		state *framework.CycleState
		want  explain.Attempt
	}{
		"with scores": {
			state: scored,
			want: explain.Attempt{Node: "n2", Feasible: 2, Candidates: []explain.Candidate{
				{Node: "n2", Score: 60, Parts: []explain.Part{{Name: "utilization", Value: 60, Weight: 40}}},
				{Node: "n1", Score: 30, Parts: []explain.Part{{Name: "utilization", Value: 30, Weight: 40}}},
			}},
		},
		"only one node could take the pod": {state: framework.NewCycleState(), want: explain.Attempt{Node: "n2"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := explain.NewRecorder(explain.DefaultLimits)
			newPlugin(t, recorder, nil).PostBind(t.Context(), tc.state, waiting("a", 1).Obj(), "n2")
			got, _ := recorder.Pod("team", "pod")
			tc.want.Time, tc.want.Result = noon, explain.Placed
			if diff := cmp.Diff(tc.want, got.Last); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeletedPodsAreForgotten(t *testing.T) {
	for name, wrap := range map[string]func(*corev1.Pod) any{
		"as the watch reports it":        func(pod *corev1.Pod) any { return pod },
		"as found out after a relisting": func(pod *corev1.Pod) any { return cache.DeletedFinalStateUnknown{Key: "team/pod", Obj: pod} },
	} {
		t.Run(name, func(t *testing.T) {
			recorder, pod := explain.NewRecorder(explain.DefaultLimits), waiting("a", 1).Obj()
			plugin := newPlugin(t, recorder, nil)
			plugin.PostBind(t.Context(), framework.NewCycleState(), pod, "n1")
			plugin.forgetPod(wrap(pod))
			if pods, _ := recorder.Len(); pods != 0 {
				t.Error("the record of the deleted pod is still there")
			}
		})
	}
}

// TestExplainingIsBounded has a clock on which looking into a pod takes 10 ms, and counting it as long: after a burst of
// ten, one in 64 is looked into.
func TestExplainingIsBounded(t *testing.T) {
	recorder := explain.NewRecorder(explain.DefaultLimits)
	plugin := newPlugin(t, recorder, nil, gpuNode("n1", "a", ""))
	now := noon
	plugin.Now = func() time.Time { now = now.Add(costBurst / 10); return now }
	statuses := framework.NewNodeToStatus(map[string]*fwk.Status{"n1": status(fwk.Unschedulable, "GPUFilter", "too few free")},
		fwk.NewStatus(fwk.UnschedulableAndUnresolvable))
	attempt := func() explain.Record {
		plugin.PostFilter(t.Context(), nil, waiting("a", 4).Obj(), statuses)
		got, _ := recorder.Pod("team", "pod")
		return got
	}
	lookedInto := 0
	for range 100 {
		if got := attempt(); got.Explained == got.Attempts {
			lookedInto++
		}
	}
	if lookedInto < 10 || lookedInto > 13 {
		t.Errorf("%d of 100 attempts were looked into, want a burst of ten and one or two after it", lookedInto)
	}
	now = now.Add(time.Minute)
	if got := attempt(); got.Attempts != 101 || got.Explained != 101 || len(got.Last.Reasons) != 1 {
		t.Errorf("after a minute of rest, the record is %+v, want the 101st attempt looked into", got)
	}
}

func TestOff(t *testing.T) {
	plugin := newPlugin(t, nil, nil, gpuNode("n1", "a", ""))
	_, status := plugin.PostFilter(t.Context(), nil, waiting("a", 1).Obj(), framework.NewDefaultNodeToStatus())
	plugin.PostBind(t.Context(), framework.NewCycleState(), waiting("a", 1).Obj(), "n1")
	if status.Code() != fwk.Unschedulable {
		t.Errorf("PostFilter returns %v, want Unschedulable", status)
	}
}

// rejecting builds a cluster of four pools that is full, and what the filters say of one pool's pod there: of each node
// of its pool, or of each node at all.
func rejecting(b *testing.B, recorder *explain.Recorder, count int, all bool) (*Plugin, fwk.NodeToStatusReader) {
	b.Helper()
	statuses := map[string]*fwk.Status{}
	var nodes []*corev1.Node
	var holders []*corev1.Pod
	for i := range count {
		nodes = append(nodes, gpuNode(fmt.Sprintf("node-%d", i), fmt.Sprintf("pool-%d", i%4), "A100-80G"))
		if all || i%4 == 0 {
			statuses[nodes[i].Name] = status(fwk.Unschedulable, "GPUFilter", "node(s) had too few free GPUs")
			holders = append(holders, holder(nodes[i].Name, 5+i%4))
		}
	}
	return newPlugin(b, recorder, holders, nodes...),
		framework.NewNodeToStatus(statuses, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "narrowed"))
}

// BenchmarkPostFilter looks into a pod that every node rejects.
func BenchmarkPostFilter(b *testing.B) {
	for _, count := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			plugin, statuses := rejecting(b, explain.NewRecorder(explain.DefaultLimits), count, false)
			pod, ctx := waiting("pool-0", 4).Obj(), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				plugin.PostFilter(ctx, nil, pod, statuses)
			}
		})
	}
}

// BenchmarkPostFilterUnderLoad has 100 pods a second rejected by every node, and reports what that takes of a core.
func BenchmarkPostFilterUnderLoad(b *testing.B) {
	const interval = time.Second / 100
	for _, count := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			plugin, statuses := rejecting(b, explain.NewRecorder(explain.DefaultLimits), count, true)
			ctx, began, pods := b.Context(), time.Now(), 0
			var idle time.Duration // passes on the plugin's clock alone
			plugin.Now = func() time.Time { return began.Add(time.Since(began) + idle) }
			waitingPods := make([]*corev1.Pod, 1000)
			for i := range waitingPods {
				waitingPods[i] = waiting("pool-0", 4).Name(fmt.Sprint("pod-", i)).UID(fmt.Sprint("pod-", i)).Obj()
			}
			plugin.budget.recordCost(costBurst) // what may be spent at once is spent
			b.ReportAllocs()
			for ; b.Loop(); pods++ {
				start := time.Now()
				plugin.PostFilter(ctx, nil, waitingPods[pods%len(waitingPods)], statuses)
				idle += max(interval-time.Since(start), 0)
			}
			b.ReportMetric(100*float64(b.Elapsed())/float64(time.Duration(pods)*interval), "%core")
		})
	}
}

// BenchmarkPostBind records a pod that was placed, with the gathering of its scores.
func BenchmarkPostBind(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
	}
	plugin, pod, ctx := newPlugin(b, explain.NewRecorder(explain.DefaultLimits), nil), waiting("a", 1).Obj(), b.Context()
	parts := []explain.Part{{Name: "utilization", Weight: 40}, {Name: "typeMatch", Weight: 30}, {Name: "topology", Weight: 30}}
	b.ReportAllocs()
	for b.Loop() {
		state, scores := framework.NewCycleState(), cycle.NewScores(len(names), parts)
		for i, name := range names {
			scores.Add(name, int64(i%100), int64(i%100), int64(i%100), 100, 50)
		}
		state.Write(cycle.ScoresKey, scores)
		plugin.PostBind(ctx, state, pod, names[0])
	}
}
