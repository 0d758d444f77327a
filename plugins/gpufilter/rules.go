package gpufilter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// demand is all that a pod says about where its GPUs must come from.
type demand struct {
	Request gpu.Request
	Pool    string // "" when the pod is in no pool
	Types   gpu.Types
}

// demandOf reads a pod. The error says which quantity or annotation cannot be read.
func demandOf(pod *corev1.Pod) (demand, error) {
	request, err := gpu.RequestOf(pod)
	if err != nil {
		return demand{}, err
	}
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return demand{}, err
	}
	return demand{Request: request, Pool: gpu.PodPool(pod), Types: types}, nil
}

// isEmpty reports whether every node satisfies the demand.
func (d *demand) isEmpty() bool { return d.Request.IsZero() && d.Pool == "" && d.Types.IsAny() }

// rules are what the profile adds to the demands of its pods.
type rules struct {
	// served are the GPU types that pods of the profile may use. Empty serves all.
	served []string
}

// typesFor returns types of which every acceptable node carries one, or none if any node may be acceptable.
func (r *rules) typesFor(d demand) []string {
	if !d.Types.IsAny() || d.Request.IsZero() {
		return d.Types.Names()
	}
	return r.served
}

// verdict is why a node is rejected. The zero value accepts it.
type verdict int

const (
	fits verdict = iota
	otherPool
	otherType
	notServed
	tooSmall
	tooFewFree
	verdicts // how many there are
)

// rejections tells, by verdict, the reason that users read and the label that metrics carry. Reasons are
// constant, because the scheduler sums up nodes by equal reasons.
var rejections = [verdicts]struct {
	code   fwk.Code
	reason string
	label  string
}{
	otherPool:  {fwk.UnschedulableAndUnresolvable, "node(s) are not in the pod's GPU pool", "pool"},
	otherType:  {fwk.UnschedulableAndUnresolvable, "node(s) have another GPU type", "type"},
	notServed:  {fwk.UnschedulableAndUnresolvable, "node(s) have a GPU type that this scheduler profile does not serve", "not_served"},
	tooSmall:   {fwk.UnschedulableAndUnresolvable, "node(s) have fewer GPUs than the pod asks for", "too_small"},
	tooFewFree: {fwk.Unschedulable, "node(s) have too few free GPUs", "too_few_free"},
}

// status builds a new status each time, since the framework writes the plugin's name into it.
func (v verdict) status() *fwk.Status { return fwk.NewStatus(rejections[v].code, rejections[v].reason) }

// judge decides whether a node can take the pod now. Usage comes from the NodeInfo alone, which in a dry run
// of preemption is not the snapshot's. Terminated pods are in no NodeInfo: the scheduler's pod informer
// selects them away. MIG slices are counted by Kubernetes' own NodeResourcesFit.
func (r *rules) judge(d *demand, info fwk.NodeInfo) verdict {
	if v := r.judgeLabels(d, info.Node()); v != fits {
		return v
	}
	allocatable, requested := info.GetAllocatable().GetScalarResources(), info.GetRequested().GetScalarResources()
	whole := room(d.Request.Whole, allocatable[names.ResourceGPU], requested[names.ResourceGPU])
	shared := room(d.Request.Shared, allocatable[names.ResourceSharedGPU], requested[names.ResourceSharedGPU])
	if whole == tooSmall || shared == tooSmall {
		return tooSmall
	}
	return max(whole, shared)
}

// judgeLabels decides what only a change of the node's labels can change.
func (r *rules) judgeLabels(d *demand, node *corev1.Node) verdict {
	switch {
	case d.Pool != "" && gpu.PoolOf(node) != d.Pool:
		return otherPool
	case !d.Types.Match(node):
		return otherType
	case !d.Request.IsZero() && len(r.served) > 0 && !slices.Contains(r.served, gpu.TypeOf(node)):
		return notServed
	}
	return fits
}

// room decides whether asked units fit beside those requested. Preemption helps only where they would fit
// on the empty node. A negative sum is one that wrapped, so the node is taken for full.
func room(asked, allocatable, requested int64) verdict {
	switch {
	case asked == 0:
		return fits
	case asked > allocatable:
		return tooSmall
	case requested < 0 || asked > allocatable-requested:
		return tooFewFree
	}
	return fits
}
