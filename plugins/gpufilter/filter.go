package gpufilter

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Filter rejects a node that is not of the pod's pool and type, is reserved for others, or lacks GPUs for the pod.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s, err := p.stateOf(cs, pod)
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	verdict := p.judgeNode(s, node)
	if verdict == statusFits {
		return p.judgeSlices(s, node)
	}
	nodeRejections[verdict].Inc()
	return verdict.toStatus()
}

// stateOf returns what PreFilter read from the pod. The classic configuration enables the plugin at filter
// alone; then there is no such state, and the pod is read again for each node.
func (p *Plugin) stateOf(cs fwk.CycleState, pod *corev1.Pod) (*state, error) {
	if s, err := cycle.Read[*state](cs, stateKey); err == nil {
		return s, nil
	}
	demand, err := demandOf(pod)
	if err != nil {
		return nil, err
	}
	return &state{demand: demand, reservations: p.reservations.ClosedFor(pod), startReservations: p.startReservations.ReservedFrom(pod)}, nil
}

// demand is all that a pod says about where its GPUs must come from.
type demand struct {
	Cards gpu.Demand
	Pool  string // "" when the pod is in no pool
	Types gpu.Types
}

// demandOf parses a pod that has no node yet. The error says which quantity or annotation is malformed, or may not be set by the author: GPUs
// that a pod names itself would count as its own once it is bound.
func demandOf(pod *corev1.Pod) (demand, error) {
	if _, ok := pod.Annotations[names.AnnotationGPUDevices]; ok && pod.Spec.NodeName == "" {
		return demand{}, errors.New(reason.ForeignDevices.FormatText(names.AnnotationGPUDevices))
	}
	cards, err := gpu.DemandOf(pod)
	if err != nil {
		return demand{}, err
	}
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return demand{}, err
	}
	return demand{Cards: cards, Pool: gpu.PodPool(pod), Types: types}, nil
}

// isEmpty reports whether every node satisfies the demand.
func (d *demand) isEmpty() bool { return d.Cards.IsZero() && d.Pool == "" && d.Types.IsAny() }

// rules are what the profile adds to the requirements of its pods.
type rules struct {
	// served are the GPU types that pods of the profile may use. Empty serves all.
	served []string
}

// typesFor returns types of which every acceptable node carries one, or none if any node may be acceptable.
func (r *rules) typesFor(d demand) []string {
	if !d.Types.IsAny() || d.Cards.IsZero() {
		return d.Types.AcceptedNames()
	}
	return r.served
}

// nodeStatus is why a node is rejected. The zero value accepts it. Those from cards on are the codes of gpu.Allocate.
type nodeStatus int

const (
	statusFits nodeStatus = iota
	statusOtherPool
	statusOtherType
	statusNotServed
	statusReserved
	statusKeptForFirst
	statusAgentAway
	statusTooFewSlices
	statusGPUs
	nodeStatuses = statusGPUs + nodeStatus(gpu.Codes) // how many there are
)

// statusTooSmall and statusTooFewFree also result from the amounts that the kubelet offers, which can be less than the number of GPUs.
const (
	statusTooSmall   = statusGPUs + nodeStatus(gpu.TooFewGPUs)
	statusTooFewFree = statusGPUs + nodeStatus(gpu.TooFewFree)
)

// reasonByStatus are the reasons of the verdicts.
var reasonByStatus = withGPUCodes([nodeStatuses]*reason.Reason{statusOtherPool: reason.InOtherPool, statusOtherType: reason.WithOtherType, statusNotServed: reason.NotServed, statusReserved: reason.Reserved, statusKeptForFirst: reason.KeptForFirst, statusAgentAway: reason.AgentGivesNone, statusTooFewSlices: reason.TooFewSlices})

// withGPUCodes adds the rejections of the allocator.
func withGPUCodes(all [nodeStatuses]*reason.Reason) [nodeStatuses]*reason.Reason {
	for code := gpu.Fits + 1; code < gpu.Codes; code++ {
		all[statusGPUs+nodeStatus(code)] = reason.ReasonForCode(code)
	}
	return all
}

// toStatus builds a new status each time, since the framework writes the plugin's name into it. A node whose GPUs are sufficient, but not free,
// allows preemption.
func (v nodeStatus) toStatus() *fwk.Status {
	code := fwk.UnschedulableAndUnresolvable
	if reasonByStatus[v].Evictable {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, string(reasonByStatus[v].Text))
}

// judgeNode decides whether a node can take the pod now. Usage comes from the NodeInfo alone, which in a dry run of preemption is not the
// snapshot's. Terminated pods are in no NodeInfo: the scheduler's pod informer filters them out.
//
// The cheapest check comes first.
func (p *Plugin) judgeNode(s *state, info fwk.NodeInfo) nodeStatus {
	if v := p.rules.judgeLabels(&s.demand, info.Node()); v != statusFits {
		return v
	}
	if s.reservations.FirstOn(info.Node()) != nil {
		return statusReserved // until then no eviction helps
	}
	if s.isClosedByAgent(info.Node()) {
		return statusAgentAway
	}
	if v := p.judgeGPUs(&s.demand, info); v != statusFits {
		return v
	}
	if s.startReservations.RoomFor(info) == 0 {
		return statusKeptForFirst // there is room, but not for this pod
	}
	return statusFits
}

// judgeSlices decides by the MIG slices of a node that lists them. Kubernetes' own NodeResourcesFit counts them too, by what the kubelet offers,
// which for some seconds includes those of a broken GPU.
func (p *Plugin) judgeSlices(s *state, info fwk.NodeInfo) *fwk.Status {
	if !s.demand.Cards.NeedsSlices() {
		return nil
	}
	short := p.deviceCache.SliceShortage(&s.demand.Cards, info)
	if short.IsZero() {
		return nil
	}
	nodeRejections[statusTooFewSlices].Inc()
	code := fwk.UnschedulableAndUnresolvable
	if short.IsShortage() {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, reason.TooFewSlices.Text.FormatText(short.Profile))
}

// couldFit reports whether a node can take the pod by its GPUs, its MIG slices apart, and isOpen whether it is not reserved for others. The
// first is equal for all nodes with the same GPUs in the same use.
func (p *Plugin) couldFit(s *state, info fwk.NodeInfo) bool {
	return p.rules.judgeLabels(&s.demand, info.Node()) == statusFits && p.judgeGPUs(&s.demand, info) == statusFits
}

func (s *state) isOpen(info fwk.NodeInfo) bool {
	return s.reservations.FirstOn(info.Node()) == nil && s.startReservations.RoomFor(info) > 0 && !s.isClosedByAgent(info.Node())
}

// isClosedByAgent reports whether the pod would get no GPUs on a node, whatever is free there.
func (s *state) isClosedByAgent(node *corev1.Node) bool {
	return !s.demand.Cards.IsZero() && nodestate.AgentClosure(node) != nil
}

// judgeGPUs decides by the GPUs of a node. They come before counts, since they tell whether preemption can help.
func (p *Plugin) judgeGPUs(d *demand, info fwk.NodeInfo) nodeStatus {
	if !d.Cards.NeedsGPUs() {
		return statusFits
	}
	if _, why := p.deviceCache.NodeView(info).Allocate(&d.Cards); !why.IsZero() {
		return statusGPUs + nodeStatus(why.Code)
	}
	v := judgeCounts(d, info.GetAllocatable(), info.GetRequested())
	if v == statusTooSmall && nodestate.IsAgentAway(info.Node()) {
		return statusAgentAway // the inventory has the GPUs, and they are healthy
	}
	return v
}

// judgeCounts decides by what the kubelet offers and what pods request, regardless of which GPUs: a device plugin may have withdrawn a GPU that
// the inventory still reports as healthy.
func judgeCounts(d *demand, allocatable, requested fwk.Resource) nodeStatus {
	offered, asked := allocatable.GetScalarResources(), requested.GetScalarResources()
	whole := roomStatus(d.Cards.Whole, offered[names.ResourceGPU], asked[names.ResourceGPU])
	shared := roomStatus(d.Cards.Shared, offered[names.ResourceSharedGPU], asked[names.ResourceSharedGPU])
	if whole == statusTooSmall || shared == statusTooSmall {
		return statusTooSmall
	}
	return max(whole, shared)
}

// judgeLabels decides by what only a change of the node's labels can change.
func (r *rules) judgeLabels(d *demand, node *corev1.Node) nodeStatus {
	switch {
	case d.Pool != "" && gpu.PoolOf(node) != d.Pool:
		return statusOtherPool
	case !d.Types.MatchesNode(node):
		return statusOtherType
	case !d.Cards.IsZero() && len(r.served) > 0 && !slices.Contains(r.served, gpu.TypeOf(node)):
		return statusNotServed
	}
	return statusFits
}

// roomStatus decides whether asked units fit beside those requested. Preemption helps only if they would fit on the empty node. A negative sum has
// wrapped, so the node counts as full.
func roomStatus(asked, allocatable, requested int64) nodeStatus {
	switch {
	case asked == 0:
		return statusFits
	case asked > allocatable:
		return statusTooSmall
	case requested < 0 || asked > allocatable-requested:
		return statusTooFewFree
	}
	return statusFits
}
