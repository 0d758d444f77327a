// Package gpureserve keeps the last idle nodes of a pool whole for pods that need a whole node: it rejects these nodes for smaller pods that
// would fit. It runs at PreFilter, after GPUScore, which forecasts the expected pods and determines how many nodes to keep (its argument
// keepWholePerMille), and at Filter, after all others, so that its reason is why a pod waits. Without a forecast, as with other strategies than
// LeastFragmentation, it keeps nothing. It has no arguments. docs/fragmentation.md has the rule.
//
// A pod that it keeps off the last idle nodes of eight GPUs:
//
//	spec: {containers: [{resources: {limits: {nvidia.com/gpu: 2}}}]}
package gpureserve

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	listersv1 "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Name is the plugin's name in the scheduler configuration.
const Name = "GPUReserve"

const stateKey fwk.StateKey = "PreFilter" + Name

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Dependencies are shared by the instances of all profiles.
type Dependencies struct {
	// Devices reads the GPUs of nodes.
	Devices observe.Devices
	// Now is the clock, time.Now if it is nil.
	Now func() time.Time
}

// Plugin keeps nodes for one scheduler profile.
type Plugin struct {
	Dependencies
	handle fwk.Handle
	nodes  listersv1.NodeLister
	idle   idleTimeouts
	// shown is the state of the metrics.
	shown atomic.Pointer[shownForecasts]
}

// Factory returns what builds the plugin for each profile.
func Factory(deps Dependencies) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin := &Plugin{Dependencies: deps, handle: handle}
		if factory := handle.SharedInformerFactory(); factory != nil { // there is none in tests of Filter
			plugin.nodes = factory.Core().V1().Nodes().Lister()
		}
		if err := plugin.idle.watchPods(handle.SharedInformerFactory()); err != nil {
			return nil, err
		}
		registerMetrics()
		return plugin, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreFilter determines whether Filter may have to keep a node from the pod, and skips the pod if not.
func (p *Plugin) PreFilter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	expected := cycle.ReadExpectation(cs)
	if expected == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.updateShownPools(expected.Forecasts)
	k := newKeptNodes(expected, pod)
	if k == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cs.Write(stateKey, k)
	return nil, nil
}

// PreFilterExtensions returns nil: the result of PreFilter does not depend on the pods of a node.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects an idle node that is kept whole. It judges the nodes of the snapshot: a node that is idle only in a dry run of preemption is
// not kept, nor is the pod's nominated node.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if node.Node() == nil || observe.HasGPUsInUse(node) {
		return nil
	}
	k, err := cycle.Read[*keptNodes](cs, stateKey)
	if err != nil || pod.Status.NominatedNodeName == node.Node().Name || !p.worthKeeping(k, node) {
		return nil // without the state of PreFilter, nothing is kept
	}
	k.once.Do(func() { k.nodes, k.err = p.nodesToKeep(k, pod) })
	if k.err != nil {
		return fwk.AsStatus(k.err)
	}
	if !k.nodes.Has(node.Node().Name) {
		return nil
	}
	k.counted.Do(func() { keptPods.WithLabelValues(p.shown.Load().poolLabel(k.pool)).Inc() })
	return fwk.NewStatus(fwk.Unschedulable, string(reason.KeptForWhole.Text))
}

// SignPod adds nothing: GPUScore signs no pod with GPUs whose score depends on the forecast, and of the others Filter judges the node that
// kube-scheduler takes from the list of an equal pod.
func (*Plugin) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}
