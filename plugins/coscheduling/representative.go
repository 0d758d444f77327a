package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/hint"
)

// setRepresentative makes a rejected member the representative of its gang, and records the waiting members.
func (r *gangs) setRepresentative(g gang, pod *corev1.Pod, waiting []*corev1.Pod) {
	of := placement.PodsFingerprint(waiting)
	r.mu.RLock()
	known := r.states[g] != nil && r.states[g].pendingClasses.fingerprint == of
	r.mu.RUnlock()
	var all pendingClasses
	if !known {
		all = newPendingClasses(waiting, of)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ensureState(g)
	if s.representative = nameOf(pod); !known {
		s.pendingClasses = all
	}
}

// recordMissedSiblings records a waiting member that reports that others are missing. Once more are recorded than wait, those that no longer wait are
// dropped.
func (r *gangs) recordMissedSiblings(g gang, pod types.NamespacedName, waiting []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ensureState(g)
	if s.missedSiblings == nil {
		s.missedSiblings = sets.New[types.NamespacedName]()
	}
	if s.missedSiblings.Insert(pod); s.missedSiblings.Len() <= len(waiting) {
		return
	}
	there := sets.New[types.NamespacedName]()
	for _, member := range waiting {
		there.Insert(nameOf(member))
	}
	s.missedSiblings = s.missedSiblings.Intersection(there)
}

// takeMissedSiblings returns the members that reported that others are missing, but the given one, and forgets them.
func (r *gangs) takeMissedSiblings(g gang, pod types.NamespacedName) sets.Set[types.NamespacedName] {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[g]
	if !ok {
		return nil
	}
	reported := s.missedSiblings
	s.missedSiblings = nil
	return reported.Delete(pod)
}

// pendingClasses are waiting members, one of each class. If there are too many classes, only their pools are kept.
type pendingClasses struct {
	// fingerprint is the fingerprint of all of them.
	fingerprint uint64
	pods        []*corev1.Pod
	pools       sets.Set[string]
}

func newPendingClasses(waiting []*corev1.Pod, of uint64) pendingClasses {
	all := pendingClasses{fingerprint: of}
	kinds := placement.NewPodClasses(waiting)
	if !kinds.Varied {
		for i := range kinds.Classes {
			all.pods = append(all.pods, kinds.Classes[i].Pod)
		}
		return all
	}
	all.pools = sets.New[string]()
	for _, member := range waiting {
		all.pools.Insert(gpu.PodPool(member))
	}
	return all
}

// hasOpenNode reports whether a node is open to one of them.
func (s *pendingClasses) hasOpenNode(node *corev1.Node) bool {
	return s.pools.Has("") || s.pools.Has(gpu.PoolOf(node)) || slices.ContainsFunc(s.pods, func(pod *corev1.Pod) bool { return isOpenTo(node, pod) })
}

// isOpenTo reports whether a node is in the pool of a pod, and its labels and taints admit the pod.
func isOpenTo(node *corev1.Node, pod *corev1.Pod) bool {
	pool := gpu.PodPool(pod)
	return (pool == "" || pool == gpu.PoolOf(node)) && hint.Admits(pod, node)
}

// newPendingClasses returns the known waiting members of a gang.
func (r *gangs) pendingClassesOf(g gang) pendingClasses {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s, ok := r.states[g]; ok {
		return s.pendingClasses
	}
	return pendingClasses{}
}

// dropRepresentative removes a pod as representative after another plugin rejected it, so that all members are tried again: the others may form
// a gang without it, and its obstacle need not apply to them.
func (r *gangs) dropRepresentative(g gang, pod types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.states[g]; ok && s.representative == pod {
		s.representative = types.NamespacedName{}
	}
}

// representativeOf returns the member that is tried for its gang, "" if there is none.
func (r *gangs) representativeOf(g gang) types.NamespacedName {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s, ok := r.states[g]; ok {
		return s.representative
	}
	return types.NamespacedName{}
}
