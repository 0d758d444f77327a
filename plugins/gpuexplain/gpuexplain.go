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

// Cards reads the GPUs of nodes, and which pods have them.
type Cards interface {
	// Shortage is why the demand does not fit on the node now. It is zero if it fits.
	Shortage(demand *gpu.Demand, node fwk.NodeInfo) gpu.Reason
	// Chosen returns the GPUs chosen for a pod, in the form of the annotation g8s.host/gpu-devices, and the reason for the choice. Both are ""
	// for a pod without GPUs.
	Chosen(pod types.UID, node string) (devices, reason string)
}

// Dependencies are what the instances of all profiles share.
type Dependencies struct {
	// Recorder stores the attempts. nil turns the plugin off.
	Recorder *explain.Recorder
	// Cards is nil where GPUs are only counted.
	Cards Cards
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
	if deps.Cards == nil {
		deps.Cards = counts{}
	}
	shared := &budget{}
	return func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin := &Plugin{Dependencies: deps, nodes: handle.SnapshotSharedLister().NodeInfos(), budget: shared}
		if deps.Recorder == nil {
			return plugin, nil
		}
		registerMetrics()
		informer := handle.SharedInformerFactory().Core().V1().Pods().Informer()
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: plugin.forget})
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
	if !p.budget.allows(attempt.Time) {
		skippedAttempts.Inc()
		p.Recorder.Count(pod, attempt)
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	t := newTally(pod, statuses)
	for _, node := range nodes {
		t.add(node)
	}
	attempt.Reasons, attempt.NearMisses = t.list(), p.nearMisses(pod, t.short)
	p.Recorder.Record(pod, attempt)
	p.budget.spend(p.Now().Sub(attempt.Time))
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// PostBind records where a pod went.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	if p.Recorder == nil {
		return
	}
	attempt := explain.Attempt{Time: p.Now(), Result: explain.Placed, Node: node}
	attempt.Devices, attempt.DevicesReason = p.Cards.Chosen(pod.UID, node)
	// There are no scores when only one node could take the pod.
	if scores, err := cycle.Read[*cycle.Scores](state, cycle.ScoresKey); err == nil {
		attempt.Feasible, attempt.Candidates = scores.Len(), upTo(node, scores.Best(explain.MaxCandidates))
	}
	p.Recorder.Record(pod, attempt)
}

// upTo drops candidates that are better than the chosen node: a plugin that looks at more than GPUs rejected them. None remains if
// that was so for all of the best.
func upTo(node string, candidates []explain.Candidate) []explain.Candidate {
	at := slices.IndexFunc(candidates, func(c explain.Candidate) bool { return c.Node == node })
	if at < 0 {
		return nil
	}
	chosen := candidates[at].Score
	return slices.DeleteFunc(candidates, func(c explain.Candidate) bool { return c.Score > chosen })
}

// forget drops the record of a pod that was deleted or has ended; the scheduler's informer reports both alike.
func (p *Plugin) forget(obj any) {
	if pod, ok := devices.Last[*corev1.Pod](obj); ok {
		p.Recorder.Forget(pod.UID)
	}
}
