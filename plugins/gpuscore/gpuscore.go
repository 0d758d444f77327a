// Package gpuscore prefers, among the nodes that can take a pod, the one whose GPUs it suits best. The score
// is absolute, 0–100, the weighted mean of three parts: utilization (how full the node is with the pod, by the
// strategy Pack, Spread or TargetBand), typeMatch (how near the GPU type is to what the pod prefers) and
// topology (NVLink for pods of several GPUs, and not for pods of one). Pods without GPUs are kept off GPU
// nodes. It runs at PreScore and Score; its arguments are weights, strategy, targetBand and compatibleTypes.
//
// A pod that it handles, which takes an A800 but would rather have an A100:
//
//	metadata: {annotations: {g8s.host/gpu-types: "A100-80G,A800-80G"}}
//	spec: {containers: [{resources: {limits: {nvidia.com/gpu: 4}}}]}
package gpuscore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/cyclestate"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Name is the plugin's name in the scheduler configuration.
const Name = "GPUScore"

const stateKey fwk.StateKey = "PreScore" + Name

var (
	_ fwk.PreScorePlugin = (*Plugin)(nil)
	_ fwk.ScorePlugin    = (*Plugin)(nil)
	_ fwk.SignPlugin     = (*Plugin)(nil)
)

// Plugin scores nodes for one scheduler profile.
type Plugin struct {
	weights    weights
	strategy   configv1.Strategy
	target     band
	compatible map[string][]string
}

// wants is what a pod says that a score depends on.
type wants struct {
	Request gpu.Request
	Types   gpu.Types
}

// state holds what PreScore read from the pod. It never changes, so clones share it.
type state struct{ wants wants }

// Clone implements fwk.StateData.
func (s *state) Clone() fwk.StateData { return s }

// New builds the plugin for one profile. It refuses invalid arguments with the path and the value.
func New(_ context.Context, obj runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	given, ok := obj.(*configv1.GPUScoreArgs)
	if !ok {
		return nil, fmt.Errorf("arguments of %s are %T, want *GPUScoreArgs", Name, obj)
	}
	args := given.DeepCopy()
	args.SetDefaults()
	path := field.NewPath("pluginConfig").Key(Name).Child("args")
	if errs := args.Validate(path); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	registerMetrics()
	return fromArgs(args), nil
}

// fromArgs flattens complete and valid arguments.
func fromArgs(args *configv1.GPUScoreArgs) *Plugin {
	const percent = whole / 100
	plugin := &Plugin{
		weights: weights{
			utilization: int64(*args.Weights.Utilization),
			typeMatch:   int64(*args.Weights.TypeMatch),
			topology:    int64(*args.Weights.Topology),
		},
		strategy:   args.Strategy,
		target:     band{low: int64(*args.TargetBand.Low) * percent, high: int64(*args.TargetBand.High) * percent},
		compatible: make(map[string][]string, len(args.CompatibleTypes)),
	}
	for _, entry := range args.CompatibleTypes {
		plugin.compatible[entry.Type] = entry.Accepts
	}
	return plugin
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreScore reads the pod once for all nodes.
func (*Plugin) PreScore(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	wants, err := wantsOf(pod)
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	countPod(wants.Request)
	cycle.Write(stateKey, &state{wants: wants})
	return nil
}

// Score values a node for the pod, 0–100, whatever the other nodes are worth.
func (p *Plugin) Score(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := stateOf(cycle, pod)
	if err != nil {
		return 0, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if s.wants.Request.IsZero() {
		return scoreWithoutGPU(node), nil
	}
	return p.weights.total(p.partsOf(&s.wants, node)), nil
}

// stateOf returns what PreScore read from the pod. The classic configuration enables the plugin at score
// alone; then there is no such state, and the pod is read anew for each node.
func stateOf(cycle fwk.CycleState, pod *corev1.Pod) (*state, error) {
	if s, err := cyclestate.Read[*state](cycle, stateKey); err == nil {
		return s, nil
	}
	wants, err := wantsOf(pod)
	if err != nil {
		return nil, err
	}
	return &state{wants: wants}, nil
}

// ScoreExtensions returns nil: scores are absolute. Stretching them over the nodes at hand would turn a
// difference of one point into one of a hundred, and a node's score would depend on its neighbours.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// SignPod tells which pods the plugin treats alike: those that want the same.
func (*Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	wants, err := wantsOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	return []fwk.SignFragment{{Key: "v1.Pod." + Name + "Wants()", Value: wants}}, nil
}

func wantsOf(pod *corev1.Pod) (wants, error) {
	request, err := gpu.RequestOf(pod)
	if err != nil {
		return wants{}, err
	}
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return wants{}, err
	}
	return wants{Request: request, Types: types}, nil
}
