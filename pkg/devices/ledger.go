package devices

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Cache tracks which GPUs of each node are free, and stores the GPUs chosen for pods until they leave. It is safe for concurrent use. It holds
// one entry for each node and each pod with GPUs, and drops it when they are gone.
type Cache struct {
	// OnRead, if not nil, is called when a node is first read, with all its pods. It is set before the ledger is used.
	OnRead func()

	follow     sync.Once
	topologies gpu.Topologies
	sink       clusterSink

	// nodes holds a *slot by node name. Reads take no lock: Filter reads it for many nodes concurrently.
	nodes sync.Map
	// adding serializes the addition and removal of nodes.
	adding sync.Mutex

	mu   sync.RWMutex
	pods map[types.UID]*Choice
}

// NewCache returns an empty ledger. WatchCluster keeps it in sync with the cluster.
func NewCache() *Cache { return &Cache{pods: map[types.UID]*Choice{}} }

// Choice is the GPUs and MIG slices chosen for one pod. It never changes.
type Choice struct {
	// Node is where they are.
	Node string
	// Assignment is the GPUs by container, and Slices the MIG slices.
	Assignment gpu.Assignment
	Slices     gpu.SliceAssignment

	demand gpu.Demand
	// holding and slices are the assignments in positions of allocator's inventory.
	allocator *gpu.Allocator
	holding   gpu.Holding
	slices    *gpu.SliceHolding
	// left are the GPUs that stayed free, and idle is the number of unused GPUs in MIG mode.
	left gpu.Set
	idle int
}

// Reserve chooses GPUs and MIG slices on a node and stores the choice, or returns why there are none. It chooses no slices on a node that does
// not list them. It is a function of the given node: repeated calls return the same GPUs, and a demand that fits the node's [View] gets the GPUs
// that View.Allocate returns. What the pod itself already holds of the node does not count.
func (l *Cache) Reserve(pod *corev1.Pod, demand *gpu.Demand, info fwk.NodeInfo) gpu.Reason {
	view := l.NodeView(info)
	if _, ok := view.holders[pod.UID]; ok {
		view = l.buildView(l.slotOf(info.Node().Name), info, pod.UID)
	}
	if !demand.NeedsGPUs() && !view.Allocator.NamesSlices() {
		return gpu.Reason{} // its slices are the agent's to choose
	}
	allocation, reason := view.Allocate(demand)
	if !reason.IsZero() {
		return reason
	}
	choice := &Choice{
		Node:       info.Node().Name,
		Assignment: view.Allocator.BuildAssignment(demand, &allocation),
		demand:     *demand,
		allocator:  view.Allocator,
		holding:    allocation.Holding,
		left:       view.Allocator.FreeGPUs(&view.Used) &^ (allocation.Whole | allocation.Shared),
	}
	if reason := choice.takeSlices(view); !reason.IsZero() {
		return reason
	}
	l.setChoice(pod.UID, choice)
	return gpu.Reason{}
}

// ForgetPod drops the choice for a pod. If the pod is on a node all the same, its annotation counts from then on.
func (l *Cache) ForgetPod(pod types.UID) { l.setChoice(pod, nil) }

// ChoiceOf returns what was chosen for a pod.
func (l *Cache) ChoiceOf(pod types.UID) (Choice, bool) {
	if choice := l.choiceOf(pod); choice != nil {
		return *choice, true
	}
	return Choice{}, false
}

func (l *Cache) choiceOf(pod types.UID) *Choice {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.pods[pod]
}

// setChoice replaces the choice for a pod; nil drops it. Views of the affected nodes are outdated then.
func (l *Cache) setChoice(pod types.UID, choice *Choice) {
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
