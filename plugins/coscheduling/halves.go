package coscheduling

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Halves are the pods of a scheduler that wait, of gangs of which some members are bound and fewer than it takes, once those are noted: who
// begins to lead has them queued anew. What the queue compares of them is from when they came, before the last leader began their gang.
func (p *Plugin) Halves(scheduler string) (waiting []*corev1.Pod) {
	for _, key := range p.pods.ListIndexFuncValues(byGroup) {
		namespace, name, _ := strings.Cut(key, "/")
		of := types.NamespacedName{Namespace: namespace, Name: name}
		group := p.groups.get(of)
		if unusable(group) != "" {
			continue
		}
		rest, there := map[gang][]*corev1.Pod{}, map[gang][]*corev1.Pod{}
		for _, pod := range p.podsOf(of) {
			g := gangOf(pod, group)
			switch at := p.placeOf(pod); {
			case at == bound:
				p.places.boundOf(g, pod.UID, pod.Spec.NodeName, group.minMember)
				p.forgetGone(pod)
				there[g] = append(there[g], pod)
			case at == none && pod.Spec.SchedulerName == scheduler:
				rest[g] = append(rest[g], pod)
			}
		}
		for g, pods := range rest {
			if members := wholePlan(there[g]); members > 0 { // it was made larger under another leader
				p.places.wasWhole(g, members)
			}
			if p.places.begun(g, group.minMember) {
				waiting = append(waiting, pods...)
			}
		}
	}
	return waiting
}
