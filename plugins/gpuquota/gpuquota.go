// Package gpuquota keeps namespaces within their GPUQuotas. At PreFilter it turns a pod away whose namespace would have more GPUs
// of its pool than it may; at Filter it closes the nodes of GPU types of which that is so, and leaves those alone that others leave
// for a pod which is guaranteed them. At Reserve it notes whom the scheduler has chosen a node for. Where a quota is short for all
// of a gang, Coscheduling tells; who leaves for pods that are guaranteed their GPUs, it decides, too. It has no arguments, and does
// nothing in a cluster without GPUQuotas. docs/quotas.md has the rules.
//
// A pod that it turns away while its namespace has 12 of at most 16 GPUs:
//
//	spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}
package gpuquota

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	quota "g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Name is the plugin's name in the scheduler configuration.
const Name = "GPUQuota"

const stateKey fwk.StateKey = "PreFilter" + Name

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Dependencies are what the instances of all profiles share.
type Dependencies struct {
	// Quotas are those of the cluster.
	Quotas *follow.Quotas
}

// Plugin keeps the quotas for one scheduler profile.
type Plugin struct {
	quotas *follow.Quotas
	handle fwk.Handle
	pods   listersv1.PodLister
	nodes  listersv1.NodeLister
}

// Factory returns what builds the plugin for each profile.
func Factory(deps Dependencies) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if err := deps.Quotas.Follow(handle); err != nil {
			return nil, err
		}
		core := handle.SharedInformerFactory().Core().V1()
		plugin := &Plugin{quotas: deps.Quotas, handle: handle, pods: core.Pods().Lister(), nodes: core.Nodes().Lister()}
		plugin.quotas.OnChange(plugin.wake)
		return plugin, nil
	}
}

// Quotas are those that the plugin keeps namespaces within.
func (p *Plugin) Quotas() *follow.Quotas { return p.quotas }

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// state is what Filter asks in a cycle.
type state struct {
	request *follow.Request
	// finds says that GPUs are kept for pods that are guaranteed them, which may be on the nodes that are tried.
	finds bool
}

// Clone implements fwk.StateData. What was read is only read.
func (s *state) Clone() fwk.StateData { return s }

// PreFilter turns a pod away whose namespace would have too many GPUs wherever it goes. That lets nobody be evicted. It skips Filter
// where that has nothing to say.
func (p *Plugin) PreFilter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	request := p.quotas.Of(pod)
	if request == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if excess := request.Over(); excess != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason.OverQuota(excess))
	}
	s := &state{request: request, finds: request.FindsKept()}
	if !s.finds && !request.ShutsAny() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cs.Write(stateKey, s)
	return nil, nil
}

// PreFilterExtensions returns nil: who leaves a node in a dry run of preemption changes nothing before it has left.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter closes nodes of a type of which the namespace has enough, and those that others leave for pods that are guaranteed them,
// to who would borrow there: whatever their priorities, or each would take from the other what it was just given.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, err := cycle.Read[*state](cs, stateKey)
	if err != nil || info.Node() == nil {
		return nil // PreFilter has nothing to say of it
	}
	if s.request.Shuts(info.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, string(reason.TypeOverQuota.Text))
	}
	if !s.finds {
		return nil
	}
	for _, nominated := range p.handle.NominatedPodsForNode(info.Node().Name) {
		if other := nominated.GetPod(); other.UID != pod.UID && s.request.Defers(other) {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, string(reason.GuaranteedToOthers.Text))
		}
	}
	return nil
}

// Reserve notes that the pod goes to a node, before the API server knows.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.quotas.Reserve(pod, node)
	return nil
}

// Unreserve notes that it does not.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.quotas.Unreserve(pod)
}

// SignPod refuses pods with GPUs while there are quotas: each that starts leaves less for the next.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if p.quotas.Any() && quota.WholeGPUs(pod) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "GPUQuotas count pods one by one")
	}
	return nil, nil
}

// wake has all pods tried that wait for GPUs: GPUQuotas have changed, of which kube-scheduler tells nobody.
func (p *Plugin) wake() {
	all, err := p.pods.List(labels.Everything())
	if err != nil {
		return // they are in memory
	}
	waiting := map[string]*corev1.Pod{}
	for _, pod := range all {
		if pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && quota.WholeGPUs(pod) > 0 {
			waiting[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	p.handle.Activate(klog.Background(), waiting)
}
