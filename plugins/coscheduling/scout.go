package coscheduling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// turnAway makes a member the scout of its gang, of which those wait.
func (p *places) turnAway(g gang, pod *corev1.Pod, waiting []*corev1.Pod) {
	pools := sets.New[string]()
	for _, member := range waiting {
		pools.Insert(gpu.PodPool(member))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.record(g)
	r.scout, r.pools = nameOf(pod), pools
}

// poolsOf are the pools that members of a gang wait for, as far as that is known.
func (p *places) poolsOf(g gang) sets.Set[string] {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.pools
	}
	return nil
}

// dismiss has all members tried again if a pod is the scout, whom another plugin turns away: the others may be a gang
// without it, and what keeps it from its place need not keep them.
func (p *places) dismiss(g gang, pod types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.gangs[g]; ok && r.scout == pod {
		r.scout = types.NamespacedName{}
	}
}

// scoutOf returns the member that is tried for all of a gang, "" if there is none.
func (p *places) scoutOf(g gang) types.NamespacedName {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r, ok := p.gangs[g]; ok {
		return r.scout
	}
	return types.NamespacedName{}
}
