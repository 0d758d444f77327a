// Package gpuexplain records why each pod is where it is, for gpuctl why. It decides nothing: at PostFilter it counts the reasons for which
// nodes were rejected, at PostBind it records where a pod went and the scores of the best candidates. It has no arguments.
//
// It is enabled by extension point and not at multiPoint, so kube-scheduler runs it after all plugins that are: an attempt that preemption
// resolves ends before it, and shows in the pod's nomination and the events of the victims.
//
//	postFilter: {enabled: [{name: GPUExplain}]}
//	postBind: {enabled: [{name: GPUExplain}]}
package gpuexplain

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Name is the plugin's name in the scheduler configuration.
const Name = "GPUExplain"

var (
	_ fwk.PostFilterPlugin = (*Plugin)(nil)
	_ fwk.PostBindPlugin   = (*Plugin)(nil)
)

// GPUReader reads the GPUs of nodes, and which pods have them.
type GPUReader interface {
	// GPUShortage is why the demand does not fit on the node now. It is zero if it fits.
	GPUShortage(demand *gpu.Demand, node fwk.NodeInfo) gpu.Reason
	// ChosenGPUs returns the GPUs chosen for a pod, in the form of the annotation g8s.host/gpu-devices, and the reason for the choice. Both are ""
	// for a pod without GPUs.
	ChosenGPUs(pod types.UID, node string) (devices, reason string)
}

// Dependencies are what the instances of all profiles share.
type Dependencies struct {
	// Recorder stores the attempts. nil turns the plugin off.
	Recorder *explain.Recorder
	// GPUs is nil where GPUs are only counted.
	GPUs GPUReader
	// Now is the clock.
	Now func() time.Time
}

// Plugin records the attempts of one scheduler profile.
type Plugin struct {
	Dependencies
	nodes fwk.NodeInfoLister
	// budget is one for all profiles.
	budget *budget
}

// Factory returns what builds the plugin for each profile.
func Factory(deps Dependencies) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	if deps.GPUs == nil {
		deps.GPUs = countedGPUs{}
	}
	shared := &budget{}
	return func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin := &Plugin{Dependencies: deps, nodes: handle.SnapshotSharedLister().NodeInfos(), budget: shared}
		if deps.Recorder == nil {
			return plugin, nil
		}
		registerMetrics()
		informer := handle.SharedInformerFactory().Core().V1().Pods().Informer()
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: plugin.forgetPod})
		if err != nil {
			return nil, fmt.Errorf("watching pods that are deleted: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) }) // the informer ends as well
		return plugin, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PostFilter records why every node was rejected, as long as its budget lasts. It makes nothing possible.
func (p *Plugin) PostFilter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.Recorder == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	nodes, err := p.nodes.List()
	if err != nil {
		// A failed explanation must not keep preemption from running.
		klog.FromContext(ctx).Error(err, "Listing nodes to explain a pod", "pod", klog.KObj(pod))
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	attempt := explain.Attempt{Time: p.Now(), Result: explain.Unschedulable, Nodes: len(nodes)}
	if !p.budget.canSpend(attempt.Time) {
		skippedAttempts.Inc()
		p.Recorder.CountAttempt(pod, attempt)
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	t := newTally(pod, statuses)
	for _, node := range nodes {
		t.addNode(node)
	}
	attempt.Reasons, attempt.NearMisses = t.listReasons(), p.nearMisses(pod, t.shortNodes)
	p.Recorder.Record(pod, attempt)
	p.budget.recordCost(p.Now().Sub(attempt.Time))
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// PostBind records where a pod went.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	if p.Recorder == nil {
		return
	}
	attempt := explain.Attempt{Time: p.Now(), Result: explain.Placed, Node: node}
	attempt.Devices, attempt.DevicesReason = p.GPUs.ChosenGPUs(pod.UID, node)
	// There are no scores when only one node could take the pod.
	if scores, err := cycle.Read[*cycle.Scores](state, cycle.ScoresKey); err == nil {
		attempt.Feasible, attempt.Candidates = scores.Len(), candidatesUpTo(node, scores.BestCandidates(explain.MaxCandidates))
	}
	p.Recorder.Record(pod, attempt)
}

// candidatesUpTo drops candidates that are better than the chosen node: a plugin that looks at more than GPUs rejected them. None remains if
// that was so for all of the best.
func candidatesUpTo(node string, candidates []explain.Candidate) []explain.Candidate {
	at := slices.IndexFunc(candidates, func(c explain.Candidate) bool { return c.Node == node })
	if at < 0 {
		return nil
	}
	chosen := candidates[at].Score
	return slices.DeleteFunc(candidates, func(c explain.Candidate) bool { return c.Score > chosen })
}

// forgetPod drops the record of a pod that was deleted or has ended; the scheduler's informer reports both alike.
func (p *Plugin) forgetPod(obj any) {
	if pod, ok := devices.LastKnown[*corev1.Pod](obj); ok {
		p.Recorder.Forget(pod.UID)
	}
}
