package gpuscore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/explain"
)

func newHandle(t testing.TB) fwk.Handle {
	t.Helper()
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

func build(t testing.TB, args *configv1.GPUScoreArgs) *Plugin {
	t.Helper()
	plugin, err := Factory(Dependencies{})(t.Context(), args, newHandle(t))
	if err != nil {
		t.Fatalf("building the plugin: %v", err)
	}
	return plugin.(*Plugin)
}

// only weighs a single part, so that a score is that part's value.
func only(part string) *configv1.GPUScoreWeights {
	weights := &configv1.GPUScoreWeights{Utilization: ptr.To[int32](0), TypeMatch: ptr.To[int32](0), Topology: ptr.To[int32](0)}
	switch part {
	case "utilization":
		weights.Utilization = ptr.To[int32](100)
	case "typeMatch":
		weights.TypeMatch = ptr.To[int32](100)
	case "topology":
		weights.Topology = ptr.To[int32](100)
	}
	return weights
}

func asking(name corev1.ResourceName, count string) *st.PodWrapper {
	return st.MakePod().Req(map[corev1.ResourceName]string{name: count})
}

func offering(name corev1.ResourceName, count string) *st.NodeWrapper {
	return st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{name: count})
}

func info(node *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	nodeInfo := framework.NewNodeInfo(pods...)
	nodeInfo.SetNode(node)
	return nodeInfo
}

// newCycle is the state of a cycle after PreScore.
func newCycle(t testing.TB, plugin *Plugin, pod *corev1.Pod, nodes ...fwk.NodeInfo) fwk.CycleState {
	t.Helper()
	cycle := framework.NewCycleState()
	if status := plugin.PreScore(t.Context(), cycle, pod, nodes); !status.IsSuccess() {
		t.Fatalf("PreScore: %v", status)
	}
	return cycle
}

// score runs PreScore and Score as the framework does.
func score(t testing.TB, plugin *Plugin, pod *corev1.Pod, node fwk.NodeInfo) int64 {
	t.Helper()
	cycle := newCycle(t, plugin, pod, node)
	got, status := plugin.Score(t.Context(), cycle, pod, node)
	if !status.IsSuccess() {
		t.Fatalf("Score: %v", status)
	}
	return got
}

func TestScore(t *testing.T) {
	const whole, shared, mig = names.ResourceGPU, names.ResourceSharedGPU, names.ResourceMIGPrefix + "1g.10gb"
	a800 := offering(whole, "8").Label(names.LabelGPUType, "A800-80G").Label(names.LabelNVIDIAProduct, "NVIDIA-A800").Obj()
	wish := func(gpuType string) *corev1.Pod {
		condition := corev1.NodeSelectorRequirement{Key: names.LabelGPUType, Operator: corev1.NodeSelectorOpIn, Values: []string{gpuType}}
		return asking(whole, "1").NodeAffinity(&corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{condition}},
			}},
		}).Obj()
	}
	tests := map[string]struct {
		args configv1.GPUScoreArgs
		pod  *corev1.Pod
		node fwk.NodeInfo
		want int64
	}{
		"the worked example of docs/scheduling.md, node a": {
			pod: asking(whole, "2").Annotation(names.AnnotationGPUTypes, "A100-80G,A800-80G").Obj(),
			node: info(offering(whole, "8").Label(names.LabelGPUType, "A100-80G").Label(names.LabelInterconnect, "nvlink").Obj(),
				asking(whole, "4").Obj()),
			want: 90,
		},
		"the worked example of docs/scheduling.md, node b": {
			pod: asking(whole, "2").Annotation(names.AnnotationGPUTypes, "A100-80G,A800-80G").Obj(),
			node: info(offering(whole, "8").Label(names.LabelGPUType, "A800-80G").Label(names.LabelInterconnect, "pcie").Obj(),
				asking(whole, "6").Obj()),
			want: 70,
		},
		"whole GPUs are measured with the pod on the node": {
			args: configv1.GPUScoreArgs{Weights: only("utilization")},
			pod:  asking(whole, "2").Obj(), node: info(offering(whole, "8").Obj(), asking(whole, "2").Obj()), want: 50,
		},
		"shared slots are measured in slots": {
			args: configv1.GPUScoreArgs{Weights: only("utilization")},
			pod:  asking(shared, "1").Obj(), node: info(offering(shared, "4").Obj(), asking(shared, "2").Obj()), want: 75,
		},
		"MIG slices are measured in slices": {
			args: configv1.GPUScoreArgs{Weights: only("utilization")},
			pod:  asking(mig, "1").Obj(), node: info(offering(mig, "7").Obj(), asking(mig, "6").Obj()), want: 100,
		},
		"Spread turns utilization round": {
			args: configv1.GPUScoreArgs{Weights: only("utilization"), Strategy: configv1.Spread},
			pod:  asking(whole, "2").Obj(), node: info(offering(whole, "8").Obj()), want: 75,
		},
		"TargetBand is measured after the placement, too": {
			args: configv1.GPUScoreArgs{Weights: only("utilization"), Strategy: configv1.TargetBandStrategy},
			pod:  asking(whole, "6").Obj(), node: info(offering(whole, "8").Obj()), want: 100,
		},
		"a notebook takes what larger jobs cannot use": {
			args: configv1.GPUScoreArgs{Weights: only("utilization")},
			pod:  asking(whole, "1").Label(names.LabelJobType, configv1.JobTypeNotebook).Obj(),
			node: info(offering(whole, "8").Obj(), asking(whole, "5").Obj()), want: 95,
		},
		"a notebook on shared GPUs spoils no set of whole ones": {
			args: configv1.GPUScoreArgs{Weights: only("utilization")},
			pod:  asking(shared, "1").Label(names.LabelJobType, configv1.JobTypeNotebook).Obj(),
			node: info(offering(shared, "8").Obj(), asking(shared, "3").Obj()), want: 50,
		},
		"training packs whatever the strategy for others is": {
			args: configv1.GPUScoreArgs{Weights: only("utilization"), Strategy: configv1.Spread},
			pod:  asking(whole, "2").Label(names.LabelJobType, configv1.JobTypeTraining).Obj(),
			node: info(offering(whole, "8").Obj()), want: 25,
		},
		"types of job that are turned off follow the strategy": {
			args: configv1.GPUScoreArgs{
				Weights: only("utilization"), Strategy: configv1.Spread, StrategyByJobType: []configv1.JobTypeStrategy{},
			},
			pod:  asking(whole, "2").Label(names.LabelJobType, configv1.JobTypeTraining).Obj(),
			node: info(offering(whole, "8").Obj()), want: 75,
		},
		"an inference pod of no job packs": {
			args: configv1.GPUScoreArgs{Weights: only("utilization")},
			pod:  asking(whole, "2").Label(names.LabelJobType, configv1.JobTypeInference).Obj(),
			node: info(offering(whole, "8").Obj()), want: 81,
		},
		"allocatable counts, not capacity": {
			args: configv1.GPUScoreArgs{Weights: only("utilization")},
			pod:  asking(whole, "2").Obj(), node: info(halfAllocatable()), want: 50,
		},
		"a type that the pod requires is all it asked for": {
			args: configv1.GPUScoreArgs{Weights: only("typeMatch")},
			pod:  asking(whole, "1").NodeSelector(map[string]string{names.LabelGPUType: "A800-80G"}).Obj(),
			node: info(a800), want: 100,
		},
		"the second of two accepted types": {
			args: configv1.GPUScoreArgs{Weights: only("typeMatch")},
			pod:  asking(whole, "1").Annotation(names.AnnotationGPUTypes, "A100-80G,A800-80G").Obj(),
			node: info(a800), want: 50,
		},
		"a wish that is met":           {args: configv1.GPUScoreArgs{Weights: only("typeMatch")}, pod: wish("A800-80G"), node: info(a800), want: 100},
		"a wish met by an alias label": {args: configv1.GPUScoreArgs{Weights: only("typeMatch")}, pod: wish("NVIDIA-A800"), node: info(a800), want: 100},
		"a wish that is not met":       {args: configv1.GPUScoreArgs{Weights: only("typeMatch")}, pod: wish("T4"), node: info(a800), want: 0},
		"a wish met by a compatible type": {
			args: configv1.GPUScoreArgs{Weights: only("typeMatch"), CompatibleTypes: []configv1.CompatibleTypes{
				{Type: "A100-80G", Accepts: []string{"A800-80G"}},
			}},
			pod: wish("A100-80G"), node: info(a800), want: 70,
		},
		"several GPUs and no NVLink": {
			args: configv1.GPUScoreArgs{Weights: only("topology")},
			pod:  asking(whole, "2").Obj(), node: info(a800), want: 50,
		},
		"a pod without GPUs belongs on a node without":   {pod: st.MakePod().Obj(), node: info(st.MakeNode().Name("cpu").Obj()), want: 100},
		"a pod without GPUs is kept off whole GPUs":      {pod: st.MakePod().Obj(), node: info(offering(whole, "8").Obj())},
		"a pod without GPUs is kept off shared GPUs":     {pod: st.MakePod().Obj(), node: info(offering(shared, "8").Obj())},
		"a pod without GPUs is kept off MIG slices":      {pod: st.MakePod().Obj(), node: info(offering(mig, "7").Obj())},
		"a pod without GPUs is kept off where GPUs were": {pod: st.MakePod().Obj(), node: info(st.MakeNode().Label(names.LabelGPUType, "T4").Obj())},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := score(t, build(t, &tc.args), tc.pod, tc.node); got != tc.want {
				t.Errorf("score %d, want %d", got, tc.want)
			}
		})
	}
}

func halfAllocatable() *corev1.Node {
	node := offering(names.ResourceGPU, "8").Obj()
	node.Status.Allocatable = offering(names.ResourceGPU, "4").Obj().Status.Allocatable
	return node
}

func TestScoresAreLeftForTheExplanation(t *testing.T) {
	node := info(offering(names.ResourceGPU, "8").Name("a").Obj(), asking(names.ResourceGPU, "4").Obj())
	left := func(deps Dependencies, pod *corev1.Pod) []explain.Candidate {
		plugin, err := Factory(deps)(t.Context(), &configv1.GPUScoreArgs{}, newHandle(t))
		if err != nil {
			t.Fatal(err)
		}
		cs := newCycle(t, plugin.(*Plugin), pod, node)
		if _, status := plugin.(*Plugin).Score(t.Context(), cs, pod, node); !status.IsSuccess() {
			t.Fatal(status)
		}
		scores, err := cycle.Read[*cycle.Scores](cs, cycle.ScoresKey)
		if err != nil {
			return nil
		}
		return scores.BestCandidates(1)
	}
	pod := asking(names.ResourceGPU, "2").Obj()
	want := []explain.Candidate{{Node: "a", Score: 75, Parts: []explain.Part{
		{Name: "utilization", Weight: 40, Value: 75}, {Name: "typeMatch", Weight: 30, Value: 100}, {Name: "topology", Weight: 30, Value: 50},
	}}}
	if diff := cmp.Diff(want, left(Dependencies{Explain: true}, pod)); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
	if got := left(Dependencies{}, pod); got != nil {
		t.Errorf("scores %v are left though nobody asked", got)
	}
	if got := left(Dependencies{Explain: true}, st.MakePod().Obj()); got != nil {
		t.Errorf("scores %v of a pod without GPUs, which are all or nothing", got)
	}
}

func TestScoresAreAbsolute(t *testing.T) {
	plugin, pod := build(t, &configv1.GPUScoreArgs{}), asking(names.ResourceGPU, "1").Obj()
	scores := fwk.NodeScoreList{{Name: "a", Score: 40}, {Name: "b", Score: 41}}
	status := plugin.ScoreExtensions().NormalizeScore(t.Context(), newCycle(t, plugin, pod), pod, scores)
	if want := (fwk.NodeScoreList{{Name: "a", Score: 40}, {Name: "b", Score: 41}}); !status.IsSuccess() || !cmp.Equal(want, scores) {
		t.Errorf("scores %v, %v; normalising them would make a score depend on the other nodes", scores, status)
	}
}

func TestMalformedPodIsNotScored(t *testing.T) {
	plugin, pod := build(t, &configv1.GPUScoreArgs{}), asking(names.ResourceGPU, "-1").Obj()
	status := plugin.PreScore(t.Context(), framework.NewCycleState(), pod, nil)
	if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), `nvidia.com/gpu is "-1"`) {
		t.Errorf("status %v, want the quantity that is wrong", status)
	}
	if _, status := plugin.SignPod(t.Context(), pod); status.Code() != fwk.Unschedulable {
		t.Errorf("SignPod: %v, want a refusal", status)
	}
}

// TestScoreReadsThePodWhenPreScoreDidNotRun is the classic configuration, which enables the plugin at score alone.
func TestScoreReadsThePodWhenPreScoreDidNotRun(t *testing.T) {
	plugin, node := build(t, &configv1.GPUScoreArgs{}), info(st.MakeNode().Obj())
	pod := st.MakePod().Obj()
	want := score(t, plugin, pod, node)
	got, status := plugin.Score(t.Context(), framework.NewCycleState(), pod, node)
	if !status.IsSuccess() || got != want || got == 0 {
		t.Errorf("Score without PreScore = %d, %v, want %d as with it", got, status, want)
	}
	malformed := asking(names.ResourceGPU, "-1").Obj()
	if _, status := plugin.Score(t.Context(), framework.NewCycleState(), malformed, node); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("a pod that cannot be read: %v, want it refused", status)
	}
}

func TestNewRefusesBadArguments(t *testing.T) {
	tests := map[string]struct {
		args runtime.Object
		want string
	}{
		"arguments that nobody registered": {&runtime.Unknown{}, "arguments of GPUScore are *runtime.Unknown, want *GPUScoreArgs"},
		"a weight out of range": {
			&configv1.GPUScoreArgs{Weights: &configv1.GPUScoreWeights{Utilization: ptr.To[int32](140)}},
			"pluginConfig[GPUScore].args.weights.utilization: Invalid value: 140: must be from 0 to 100",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Factory(Dependencies{})(t.Context(), tc.args, newHandle(t))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("building the plugin returned %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestSignPod(t *testing.T) {
	plugin := build(t, &configv1.GPUScoreArgs{})
	sign := func(pod *corev1.Pod) []fwk.SignFragment {
		fragments, status := plugin.SignPod(t.Context(), pod)
		if !status.IsSuccess() {
			t.Fatalf("SignPod: %v", status)
		}
		return fragments
	}
	one := sign(asking(names.ResourceGPU, "1").Name("a").Obj())
	if diff := cmp.Diff(one, sign(asking(names.ResourceGPU, "1").Name("b").Obj())); diff != "" {
		t.Errorf("pods that differ in name only (-one +other):\n%s", diff)
	}
	if cmp.Equal(one, sign(asking(names.ResourceGPU, "2").Obj())) {
		t.Error("pods that ask for one and for two GPUs have the same signature")
	}
}

// BenchmarkScore scores every node of a cluster once an iteration; it must not allocate.
func BenchmarkScore(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			plugin := build(b, &configv1.GPUScoreArgs{})
			plugin.Explain = true
			benchmarkScore(b, plugin, asking(names.ResourceGPU, "2").Annotation(names.AnnotationGPUTypes, "A100-80G,A800-80G").Obj(), count)
		})
	}
}
