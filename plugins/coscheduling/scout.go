package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/hint"
)

// turnAway makes a rejected member the representative of its gang, and records the waiting members.
func (p *places) turnAway(g gang, pod *corev1.Pod, waiting []*corev1.Pod) {
	of := fingerprint(waiting)
	p.mu.RLock()
	known := p.gangs[g] != nil && p.gangs[g].seekers.of == of
	p.mu.RUnlock()
	var all seekers
	if !known {
		all = seekersOf(waiting, of)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	if r.scout = nameOf(pod); !known {
		r.seekers = all
	}
}

// seekers are waiting members, one of each class. If there are too many classes, only their pools are kept.
type seekers struct {
	// of is the fingerprint of all of them.
	of    uint64
	pods  []*corev1.Pod
	pools sets.Set[string]
}

func seekersOf(waiting []*corev1.Pod, of uint64) seekers {
	all := seekers{of: of}
	kinds := kindsOf(waiting)
	if !kinds.varied {
		for i := range kinds.of {
			all.pods = append(all.pods, kinds.of[i].pod)
		}
		return all
	}
	all.pools = sets.New[string]()
	for _, member := range waiting {
		all.pools.Insert(gpu.PodPool(member))
	}
	return all
}

// lookTo reports whether a node is open to one of them.
func (s *seekers) lookTo(node *corev1.Node) bool {
	return s.pools.Has("") || s.pools.Has(gpu.PoolOf(node)) || slices.ContainsFunc(s.pods, func(pod *corev1.Pod) bool { return isOpenTo(node, pod) })
}

// isOpenTo reports whether a node is in the pool of a pod, and its labels and taints admit the pod.
func isOpenTo(node *corev1.Node, pod *corev1.Pod) bool {
	pool := gpu.PodPool(pod)
	return (pool == "" || pool == gpu.PoolOf(node)) && hint.Admits(pod, node)
}

// seekersOf returns the known waiting members of a gang.
func (p *places) seekersOf(g gang) seekers {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.seekers
	}
	return seekers{}
}

// dismiss removes a pod as representative after another plugin rejected it, so that all members are tried again: the others may form
// a gang without it, and its obstacle need not apply to them.
func (p *places) dismiss(g gang, pod types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok && r.scout == pod {
		r.scout = types.NamespacedName{}
	}
}

// scoutOf returns the member that is tried for its gang, "" if there is none.
func (p *places) scoutOf(g gang) types.NamespacedName {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.scout
	}
	return types.NamespacedName{}
}
