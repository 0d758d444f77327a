package coscheduling

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// PendingPartialGangs returns the waiting pods of a scheduler whose gangs are partially bound, after it has recorded the bound members. A new
// leader queues these pods again: the queue still compares them as of their arrival, before the last leader began their gang.
func (p *Plugin) PendingPartialGangs(scheduler string) (waiting []*corev1.Pod) {
	for _, key := range p.pods.ListIndexFuncValues(byGroup) {
		namespace, name, _ := strings.Cut(key, "/")
		of := types.NamespacedName{Namespace: namespace, Name: name}
		group := p.groups.GetGroup(of)
		if group.UnusableReason() != "" {
			continue
		}
		rest, there := map[gang][]*corev1.Pod{}, map[gang][]*corev1.Pod{}
		for _, pod := range p.groupPods(of) {
			g := gangOf(pod, group)
			switch at := p.placeOf(pod); {
			case at == placeBound:
				p.gangs.recordBinding(g, pod.UID, pod.Spec.NodeName, group.MinMember)
				p.forgetIfGone(pod)
				there[g] = append(there[g], pod)
			case at == placeNone && pod.Spec.SchedulerName == scheduler:
				rest[g] = append(rest[g], pod)
			}
		}
		for g, pods := range rest {
			if members := partial.CompletePlanSize(there[g]); members > 0 { // the gang was enlarged under another leader
				p.gangs.changeState(g, func(s *phase.Gang) { s.RecordWholeSize(members) })
			}
			if p.gangs.hasBegun(g, group.MinMember) {
				waiting = append(waiting, pods...)
			}
		}
	}
	return waiting
}
