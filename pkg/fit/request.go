package fit

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

// Kind is the kind of an obstacle. The set is closed.
type Kind string

// Obstacles for a pod on a node of its pool and type.
const (
	Cordoned Kind = "Cordoned"
	NotReady Kind = "NotReady"
	Tainted  Kind = "Tainted"
	// KeptOff is set by one of our controllers, and cannot be tolerated.
	KeptOff Kind = "KeptOff"
	// AgentAway is a node whose gpu-agent gives out no GPUs. What kubelet offers says nothing then.
	AgentAway Kind = "AgentAway"
	// Reserved is a node that a GPUReservation keeps from the pod.
	Reserved     Kind = "Reserved"
	NodeSelector Kind = "NodeSelector"
	// Cards is what the reason beside the obstacles says.
	Cards       Kind = "Cards"
	CPUShort    Kind = "CPUShort"
	MemoryShort Kind = "MemoryShort"
	// ResourceShort is any other resource.
	ResourceShort Kind = "ResourceShort"
	PodLimit      Kind = "PodLimit"
)

// Obstacle is one thing that keeps a pod from a node.
type Obstacle struct {
	Kind Kind
	// What distinguishes obstacles of one kind: the taint, the reservation, or the name of the resource.
	What string
}

// Request is what a pod requires of a node.
type Request struct {
	Pod    *corev1.Pod
	Demand gpu.Demand
	Types  gpu.Types
	// Pool is where the pod belongs, "" for no pool.
	Pool string

	// Resources are the requests that Kubernetes counts.
	Resources corev1.ResourceList

	// Closed are the nodes that are reserved from the pod, set by the caller; nil is none.
	Closed *reservation.ClosedWindows

	affinity nodeaffinity.RequiredNodeAffinity
}

// RequestOf parses the requirements of a pod. The error names the malformed container or annotation.
func RequestOf(pod *corev1.Pod) (*Request, error) {
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return nil, err
	}
	wanted, err := gpu.PodTypes(pod)
	if err != nil {
		return nil, err
	}
	return &Request{
		Pod: pod, Demand: demand, Types: wanted, Pool: gpu.PodPool(pod),
		Resources: amounts.Requests(pod),
		affinity:  nodeaffinity.GetRequiredNodeAffinity(pod),
	}, nil
}

// EquivalenceKey returns an equal key for pods that fit on the same nodes.
func (r *Request) EquivalenceKey() string {
	spec := &r.Pod.Spec
	text, err := json.Marshal([]any{&r.Demand, &r.Types, r.Pool, r.Resources, spec.NodeSelector, spec.Affinity, spec.Tolerations})
	if err != nil {
		return string(r.Pod.UID) + r.Pod.Namespace + "/" + r.Pod.Name // unique
	}
	return string(text)
}

// InScope reports whether a node is of the pool and of a type that the pod takes.
func (r *Request) InScope(node *corev1.Node) bool {
	return (r.Pool == "" || gpu.PoolOf(node) == r.Pool) && r.Types.MatchesNode(node)
}

// SelectsNode reports whether a node has the labels that the pod's node selector and node affinity require.
func (r *Request) SelectsNode(node *corev1.Node) bool {
	ok, err := r.affinity.Match(node)
	return ok && err == nil
}

// Obstacles returns everything that keeps the pod from a node, and why its GPUs do not serve the pod; that reason is zero if they do. Pool and
// type are not checked: see [Request.InScope].
func (r *Request) Obstacles(n *Node) (obstacles []Obstacle, cards gpu.Reason) {
	if obstacle, ok := ClosedTo(n.Object, r.Pod.Spec.Tolerations); ok {
		obstacles = append(obstacles, obstacle)
	}
	if window := r.Closed.FirstOn(n.Object); window != nil {
		obstacles = append(obstacles, Obstacle{Kind: Reserved, What: window.Name})
	}
	if !r.SelectsNode(n.Object) {
		obstacles = append(obstacles, Obstacle{Kind: NodeSelector})
	}
	if cards = r.gpuShortage(n); !cards.IsZero() {
		obstacles = append(obstacles, Obstacle{Kind: Cards})
	}
	away := r.isAgentAway(n.Object, cards)
	if away {
		obstacles = append(obstacles, Obstacle{Kind: AgentAway})
	}
	if pods := n.Object.Status.Allocatable[corev1.ResourcePods]; pods.CmpInt64(int64(n.CountPods())) <= 0 {
		obstacles = append(obstacles, Obstacle{Kind: PodLimit})
	}
	return append(obstacles, r.shortages(n, &cards, away)...), cards
}

// isAgentAway reports whether the pod would get no GPUs on a node because of its gpu-agent, and not because of the GPUs themselves.
func (r *Request) isAgentAway(node *corev1.Node, cards gpu.Reason) bool {
	if r.Demand.IsZero() {
		return false
	}
	return nodestate.AgentClosure(node) != nil || nodestate.IsAgentAway(node) && (cards.IsZero() || cards.IsShortage())
}

func (r *Request) gpuShortage(n *Node) gpu.Reason {
	if r.Demand.NeedsGPUs() {
		if _, reason := n.allocator.Allocate(&n.used, &r.Demand); !reason.IsZero() {
			return reason
		}
	}
	return r.brokenSlices(n)
}

// shortages compares the resources that Kubernetes counts. If it counts fewer GPUs than the inventory has, the device plugin has just lost some:
// then cards is set. Slices whose shortage cards already reports are not reported again, and what kubelet offers says nothing while the agent is away.
func (r *Request) shortages(n *Node, cards *gpu.Reason, away bool) []Obstacle {
	var obstacles []Obstacle
	for name, asked := range r.Resources {
		left := n.FreeOf(name)
		reported := away && names.IsGPU(name) || cards.Profile != "" && string(name) == names.ResourceMIGPrefix+cards.Profile
		if reported || asked.Cmp(left) <= 0 || asked.IsZero() {
			continue
		}
		if obstacle, other := otherShortage(name); other {
			obstacles = append(obstacles, obstacle)
			continue
		}
		if !cards.IsZero() {
			continue
		}
		total := n.Object.Status.Allocatable[name]
		*cards = gpu.Reason{Code: gpu.TooFewFree, Asked: asked.Value(), Usable: max(left.Value(), 0), Total: total.Value()}
		if asked.Cmp(total) > 0 {
			cards.Code = gpu.TooFewGPUs
		}
		obstacles = append(obstacles, Obstacle{Kind: Cards})
	}
	slices.SortFunc(obstacles, func(a, b Obstacle) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What)) })
	return obstacles
}

// otherShortage is the obstacle of a node that is short of a resource which is no whole or shared GPU. It returns false for one that is.
func otherShortage(name corev1.ResourceName) (Obstacle, bool) {
	switch name {
	case names.ResourceGPU, names.ResourceSharedGPU:
		return Obstacle{}, false
	case corev1.ResourceCPU:
		return Obstacle{Kind: CPUShort}, true
	case corev1.ResourceMemory:
		return Obstacle{Kind: MemoryShort}, true
	}
	return Obstacle{Kind: ResourceShort, What: string(name)}, true
}
