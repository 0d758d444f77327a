// Package gpuquota keeps namespaces within their GPUQuotas. At PreFilter it rejects a pod whose namespace would exceed its GPUs of the pod's
// pool. At Filter it rejects nodes of GPU types whose limit is reached, and nodes that victims leave for a pod which is guaranteed them. At
// Reserve it records pods with a chosen node. Coscheduling reports a quota that is short for a whole gang, and decides which pods leave for pods
// that are guaranteed their GPUs. It has no arguments, and does nothing in a cluster without GPUQuotas. docs/quotas.md has the rules.
//
// A pod that it rejects while its namespace has 12 of at most 16 GPUs:
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
		if err := deps.Quotas.StartWatching(handle); err != nil {
			return nil, err
		}
		core := handle.SharedInformerFactory().Core().V1()
		plugin := &Plugin{quotas: deps.Quotas, handle: handle, pods: core.Pods().Lister(), nodes: core.Nodes().Lister()}
		plugin.quotas.OnChange(plugin.activateWaiting)
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
	// findsKept says that GPUs are kept for pods that are guaranteed them, possibly on the nodes to be filtered.
	findsKept bool
}

// Clone implements fwk.StateData. The state is read-only.
func (s *state) Clone() fwk.StateData { return s }

// PreFilter rejects a pod whose namespace would have too many GPUs on any node. That prevents preemption. It skips Filter if that has nothing to
// check.
func (p *Plugin) PreFilter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	request := p.quotas.RequestFor(pod)
	if request == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if excess := request.BlockingExcess(); excess != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason.QuotaExcessText(excess))
	}
	s := &state{request: request, findsKept: request.FindsNominees()}
	if !s.findsKept && !request.ExcludesAny() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cs.Write(stateKey, s)
	return nil, nil
}

// PreFilterExtensions returns nil: the victims of a preemption dry run change nothing before they have left.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes of a type whose limit is reached, and nodes that victims leave for pods that are guaranteed them, for pods that would
// borrow there. Priorities do not matter, or each would take from the other what it was just given.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, err := cycle.Read[*state](cs, stateKey)
	if err != nil || info.Node() == nil {
		return nil // PreFilter had nothing to check
	}
	if s.request.ExcludesNode(info.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, string(reason.TypeOverQuota.Text))
	}
	if !s.findsKept {
		return nil
	}
	for _, nominated := range p.handle.NominatedPodsForNode(info.Node().Name) {
		if other := nominated.GetPod(); other.UID != pod.UID && s.request.DefersTo(other) {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, string(reason.GuaranteedToOthers.Text))
		}
	}
	return nil
}

// Reserve records that the pod goes to a node, before the API server knows.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.quotas.Reserve(pod, node)
	return nil
}

// Unreserve withdraws that.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.quotas.Unreserve(pod)
}

// SignPod refuses pods with GPUs while there are quotas: each pod that starts leaves less for the next.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if p.quotas.HasAny() && quota.WholeGPUs(pod) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "GPUQuotas count pods one by one")
	}
	return nil, nil
}

// activateWaiting activates all pods that wait for GPUs after a change of GPUQuotas, which kube-scheduler does not report.
func (p *Plugin) activateWaiting() {
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
