package coscheduling

import (
	"cmp"
	"time"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Less sorts pods by priority, then members of gangs that have begun to take places, so that nobody takes those of their
// siblings. Then by time: of a pod its own, of a member its PodGroup's, so that gangs stand together, or that of the last
// attempt, so that a gang without room does not keep others waiting behind it.
func (p *Plugin) Less(a, b fwk.QueuedPodInfo) bool {
	first, second := p.rankOf(a), p.rankOf(b)
	if first.priority != second.priority {
		return first.priority > second.priority
	}
	if first.begun != second.begun {
		return first.begun
	}
	return cmp.Or(first.at.Compare(second.at), cmp.Compare(first.namespace, second.namespace), cmp.Compare(first.name, second.name)) < 0
}

// rank is a pod's position in the queue.
type rank struct {
	priority        int32
	begun           bool
	at              time.Time
	namespace, name string
}

func (p *Plugin) rankOf(info fwk.QueuedPodInfo) rank {
	pod := info.GetPodInfo().GetPod()
	r := rank{priority: corev1helpers.PodPriority(pod), namespace: pod.Namespace, name: pod.Name}
	if at := info.GetInitialAttemptTimestamp(); at != nil {
		r.at = *at
	}
	name, ok := groupOf(pod)
	if !ok {
		return r
	}
	group := p.groups.get(name)
	if group == nil || group.problem != "" {
		return r
	}
	g := gangOf(pod, group)
	r.begun = p.places.begun(g, group.minMember)
	r.at = group.CreationTimestamp.Time
	if failed := p.places.failed(g); !failed.IsZero() {
		r.at = failed
	}
	return r
}
