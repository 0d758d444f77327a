package coscheduling

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/follow"
)

// watchWorkloads activates the members that waited for an object whose pods are recognized, or for its new content.
func (p *Plugin) watchWorkloads(of follow.Workloads) error {
	_, err := of.Informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { p.workloadChanged(nil, object) },
		UpdateFunc: func(old, object any) {
			before, _ := old.(*follow.Workload)
			p.workloadChanged(before, object)
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if gone, ok := object.(*follow.Workload); ok {
				for _, group := range gone.KnownGroups() {
					p.groupGone(group)
				}
			}
		},
	})
	if err != nil {
		return fmt.Errorf("following the objects whose pods are recognized: %w", err)
	}
	return nil
}

// workloadChanged activates the members of an object's groups if the sizes of these have changed. The pods of an object that was not known
// before are indexed under the name of the group of all its pods, as [follow.Groups.GroupOf] returns it until then.
func (p *Plugin) workloadChanged(before *follow.Workload, object any) {
	now, ok := object.(*follow.Workload)
	if !ok || before != nil && now.HasSameSizes(before) {
		return
	}
	name := now.WholeGroup()
	seen := map[types.NamespacedName]bool{}
	alone := map[string]*corev1.Pod{}
	for _, pod := range p.podsByIndex(byGroup, name.String()) {
		of, isMember := p.groups.GroupOf(pod)
		switch {
		case !isMember:
			for _, former := range pkggang.NamesFor(pod) {
				p.allowWaiting(gang{group: former}, 0) // members in Permit no longer wait for others
			}
			if p.placeOf(pod) == placeNone && len(pod.Spec.SchedulingGates) == 0 {
				alone[nameOf(pod).String()] = pod
			}
		case isMember && !seen[of]:
			seen[of] = true
			if before == nil { // state recorded under the other name belongs to no group
				p.dropEmptyGang(gang{group: name})
			}
			p.groupChanged(nil, p.groups.GetGroup(of))
		}
	}
	if len(alone) > 0 {
		p.handle.Activate(klog.Background(), alone)
	}
}
