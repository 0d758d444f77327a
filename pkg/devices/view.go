package devices

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// View is a node's GPUs and their usage, as of one NodeInfo. It never changes.
type View struct {
	// Allocator chooses GPUs of the node.
	Allocator *gpu.Allocator
	// Used is what the pods of the NodeInfo hold. It must not be changed.
	Used gpu.Used

	// slices is the usage of the node's MIG slices, and report what its agent reported about them.
	slices gpu.SlicesUsed
	report string

	generation int64
	changes    uint64
	holders    map[types.UID]holder
}

// holder is a pod and what it holds, with the source of that.
type holder struct {
	pod     *corev1.Pod
	choice  *Choice
	holding gpu.Holding
	slices  *gpu.SliceHolding
}

// Allocate chooses GPUs for a demand, or returns why there are none. It changes nothing: Ledger.Reserve does.
func (v *View) Allocate(d *gpu.Demand) (gpu.Allocation, gpu.Reason) {
	return v.Allocator.Allocate(&v.Used, d)
}

// NodeView returns the view of a node. As long as neither the NodeInfo nor the choices on the node change, it is the same view, at the cost of a
// lookup: a generation belongs to one state of one node for as long as the process lives.
func (l *Cache) NodeView(info fwk.NodeInfo) *View {
	node := info.Node()
	if node == nil {
		return emptyView
	}
	s := l.slotOf(node.Name)
	if view := s.view.Load(); view != nil && view.generation == info.GetGeneration() && view.changes == s.changes.Load() {
		return view
	}
	view := l.buildView(s, info, "")
	s.view.Store(view)
	return view
}

// emptyView is the view of a node that is gone while pods are still on it.
var emptyView = func() *View {
	allocator, _ := gpu.NewAllocator(gpu.Inventory{}, nil) // an empty inventory is valid
	return &View{Allocator: allocator}
}()

// buildView counts what the pods of a node hold, except one. Holdings are taken from the last view if possible, so that an annotation is parsed once
// and not for every change of the node.
func (l *Cache) buildView(s *slot, info fwk.NodeInfo, without types.UID) *View {
	pods := info.GetPods()
	view := &View{
		generation: info.GetGeneration(),
		changes:    s.changes.Load(), // before the choices are read: a later change must not go unseen
		Allocator:  l.allocatorFor(s, info.Node()),
		holders:    make(map[types.UID]holder, len(pods)),
	}
	reported := reportOf(info.Node(), view.Allocator)
	view.report = reported.annotationText()
	last := s.view.Load()
	if last == nil && l.OnRead != nil {
		l.OnRead()
	}
	var nominated []*corev1.Pod
	for _, podInfo := range pods {
		pod := podInfo.GetPod()
		switch {
		case pod.UID == without && without != "":
		case pod.Spec.NodeName == "":
			nominated = append(nominated, pod)
		default:
			view.addHolder(l.holderOf(pod, info.Node().Name, view, last, reported))
		}
	}
	view.addNominated(nominated)
	return view
}

// addHolder counts a pod.
func (v *View) addHolder(h holder) {
	v.holders[h.pod.UID] = h
	v.Used.Add(&h.holding)
	v.slices.Add(h.slices)
}

// holderOf determines what a pod on a node holds, for a view under construction.
func (l *Cache) holderOf(pod *corev1.Pod, node string, view, last *View, reported *sliceReport) holder {
	choice := l.choiceOf(pod.UID)
	if choice != nil && choice.Node != node {
		choice = nil
	}
	if last != nil && last.Allocator == view.Allocator {
		h, ok := last.holders[pod.UID]
		if ok && h.pod == pod && h.choice == choice && (h.slices.IsKnown() || last.report == view.report) {
			return h
		}
	}
	return holder{
		pod: pod, choice: choice, holding: holdingOf(pod, choice, view.Allocator), slices: slicesOf(pod, choice, view.Allocator, reported),
	}
}

func holdingOf(pod *corev1.Pod, choice *Choice, allocator *gpu.Allocator) gpu.Holding {
	if choice != nil {
		if choice.allocator == allocator {
			return choice.holding
		}
		if holding, err := allocator.Resolve(&choice.demand, choice.Assignment); err == nil {
			return holding
		}
	}
	// A pod without named GPUs counts as the worst that it can hold; an error in the annotation does not change that.
	holding, _ := allocator.HoldingOf(pod)
	return holding
}

// addNominated counts pods that are nominated to the node, and have no GPUs yet, ahead of the given demand: each gets the GPUs that it would get
// now, in scheduling order. If there are too few, since its victims have not left yet, it holds as many unspecified ones as it requests.
func (v *View) addNominated(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(podPriority(b), podPriority(a)), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range pods {
		demand, err := gpu.DemandOf(pod)
		if err != nil {
			continue // it will not come
		}
		allocation, reason := v.Allocate(&demand)
		if !reason.IsZero() {
			allocation.Holding = gpu.UnknownHolding(&demand)
		}
		v.addHolder(holder{pod: pod, holding: allocation.Holding, slices: v.slicesFor(&demand)})
	}
}

func podPriority(pod *corev1.Pod) int32 { return ptr.Deref(pod.Spec.Priority, 0) }

// UsedWithout returns the usage without some pods. Pods that are not on the node change nothing.
func (v *View) UsedWithout(pods []types.UID) gpu.Used {
	used := v.Used
	for _, pod := range pods {
		if h, ok := v.holders[pod]; ok {
			_ = used.Remove(&h.holding) // it was added
		}
	}
	return used
}
