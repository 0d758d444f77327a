package coscheduling

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Halves returns the waiting pods of a scheduler whose gangs are partially bound, after it has recorded the bound members. A new
// leader queues these pods again: the queue still compares them as of their arrival, before the last leader began their gang.
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
			if members := wholePlan(there[g]); members > 0 { // the gang was enlarged under another leader
				p.places.wasWhole(g, members)
			}
			if p.places.begun(g, group.minMember) {
				waiting = append(waiting, pods...)
			}
		}
	}
	return waiting
}
