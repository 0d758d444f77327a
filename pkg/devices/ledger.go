package devices

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Ledger tells which cards of each node are free, and keeps what was chosen for pods until they leave. It may be used
// from many goroutines. It holds one entry for each node and each pod with cards, and drops it when they go.
type Ledger struct {
	// Reads, if not nil, is called when a node is read that was not before, with all its pods. It is set before the ledger is used.
	Reads func()

	follow     sync.Once
	topologies gpu.Topologies
	sink       sink

	// nodes holds a *slot by node name. Reading takes no lock: Filter reads it for many nodes at once.
	nodes sync.Map
	// adding makes entering a node and dropping it exclude each other.
	adding sync.Mutex

	mu   sync.RWMutex
	pods map[types.UID]*Choice
}

// NewLedger returns an empty ledger. Follow keeps it in step with the cluster.
func NewLedger() *Ledger { return &Ledger{pods: map[types.UID]*Choice{}} }

// Choice is the cards and MIG slices chosen for one pod. It never changes.
type Choice struct {
	// Node is where they are.
	Node string
	// Assignment names the cards by container, and Slices the MIG slices.
	Assignment gpu.Assignment
	Slices     gpu.SliceAssignment

	demand gpu.Demand
	// holding and slices are the assignments in positions of allocator's inventory.
	allocator *gpu.Allocator
	holding   gpu.Holding
	slices    *gpu.SliceHolding
	// left are the cards that stayed free, and idle how many cards in MIG mode are in no use.
	left gpu.Set
	idle int
}

// Reserve chooses cards and MIG slices on a node and keeps the choice, or tells why there are none. Of a node that does not name its
// slices it chooses none. It is a function of the node as
// given: whoever asks twice gets the same cards, and a demand that fits the node's [View] gets the cards that
// View.Allocate names. What the pod itself holds of the node already does not count.
func (l *Ledger) Reserve(pod *corev1.Pod, demand *gpu.Demand, info fwk.NodeInfo) gpu.Reason {
	view := l.Node(info)
	if _, ok := view.holders[pod.UID]; ok {
		view = l.build(l.slotOf(info.Node().Name), info, pod.UID)
	}
	if !demand.NeedsCards() && !view.Allocator.Sliced() {
		return gpu.Reason{} // its slices are the agent's to choose
	}
	allocation, reason := view.Allocate(demand)
	if !reason.IsZero() {
		return reason
	}
	choice := &Choice{
		Node:       info.Node().Name,
		Assignment: view.Allocator.Assignment(demand, &allocation),
		demand:     *demand,
		allocator:  view.Allocator,
		holding:    allocation.Holding,
		left:       view.Allocator.Free(&view.Used) &^ (allocation.Whole | allocation.Shared),
	}
	if reason := choice.takeSlices(view); !reason.IsZero() {
		return reason
	}
	l.keep(pod.UID, choice)
	return gpu.Reason{}
}

// Forget drops what was chosen for a pod. A pod that is on a node all the same counts by its annotation from then on.
func (l *Ledger) Forget(pod types.UID) { l.keep(pod, nil) }

// Choice returns what was chosen for a pod.
func (l *Ledger) Choice(pod types.UID) (Choice, bool) {
	if choice := l.choice(pod); choice != nil {
		return *choice, true
	}
	return Choice{}, false
}

func (l *Ledger) choice(pod types.UID) *Choice {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.pods[pod]
}

// keep replaces the choice for a pod; nil drops it. Views of the nodes concerned are out of date then.
func (l *Ledger) keep(pod types.UID, choice *Choice) {
	l.mu.Lock()
	before := l.pods[pod]
	if choice == nil {
		delete(l.pods, pod)
	} else {
		l.pods[pod] = choice
	}
	l.mu.Unlock()
	for _, changed := range [...]*Choice{before, choice} {
		if changed == nil {
			continue
		}
		if s, ok := l.nodes.Load(changed.Node); ok {
			s.(*slot).changes.Add(1)
		}
	}
}
