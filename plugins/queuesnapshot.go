package plugins

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/fair"
	"g8s.host/gpu-scheduler/pkg/gang"
)

// queueSnapshot is a snapshot of the active queue, limited to pods of the highest priority.
type queueSnapshot struct {
	at       time.Time
	duration time.Duration
	// byNamespace are the pods of each namespace, and namespaces the namespaces. Both are empty if some pods come before all others of their
	// priority anyway.
	byNamespace     map[string]*namespacePods
	namespaces      []string
	highestPriority int32
}

// namespacePods are the pods of a namespace.
type namespacePods struct {
	pods   []*corev1.Pod
	sorted bool
	// taken are pods that were taken since, including later arrivals.
	taken sets.Set[types.UID]
}

func snapshotQueue(queued []*corev1.Pod, first func(*corev1.Pod) bool) queueSnapshot {
	l := queueSnapshot{byNamespace: map[string]*namespacePods{}}
	for i, pod := range queued {
		if priority := corev1helpers.PodPriority(pod); i == 0 || priority > l.highestPriority {
			l.highestPriority = priority
		}
	}
	for _, pod := range queued {
		if corev1helpers.PodPriority(pod) < l.highestPriority {
			continue
		}
		if first(pod) {
			return queueSnapshot{}
		}
		c := l.podsIn(pod.Namespace)
		c.pods = append(c.pods, pod)
	}
	slices.Sort(l.namespaces)
	return l
}

func (l *queueSnapshot) podsIn(space string) *namespacePods {
	c := l.byNamespace[space]
	if c == nil {
		c = &namespacePods{}
		l.byNamespace[space] = c
		l.namespaces = append(l.namespaces, space)
	}
	return c
}

// maxAddedPods is the size of a namespace in a snapshot beyond which no pods are added: the next snapshot finds them.
const maxAddedPods = 1000

// addPods adds recent arrivals to a snapshot, so that a single pod need not wait for the next snapshot.
func (l *queueSnapshot) addPods(news []*corev1.Pod) {
	if l.byNamespace == nil {
		return
	}
	for _, pod := range news {
		if corev1helpers.PodPriority(pod) != l.highestPriority {
			continue
		}
		c := l.podsIn(pod.Namespace)
		if len(c.pods) >= maxAddedPods {
			continue
		}
		known := slices.ContainsFunc(c.pods, func(other *corev1.Pod) bool { return other.UID == pod.UID })
		c.taken.Delete(pod.UID)
		c.sorted = false // a known pod has failed since, and moves back
		if !known {
			c.pods = append(c.pods, pod)
		}
	}
}

// chooseNext returns the first pod of the namespaces whose turn it is, nil if it is the turn of all waiting namespaces.
func (l *queueSnapshot) chooseNext(share *fair.Turns, before func(a, b *corev1.Pod) bool) *corev1.Pod {
	waiting := slices.DeleteFunc(slices.Clone(l.namespaces), func(space string) bool { return len(l.byNamespace[space].pods) <= len(l.byNamespace[space].taken) })
	next := share.NextCallers(waiting)
	if len(next) == len(waiting) {
		return nil
	}
	var chosen *corev1.Pod
	for _, space := range next {
		if first := l.byNamespace[space].firstPod(before); first != nil && (chosen == nil || before(first, chosen)) {
			chosen = first
		}
	}
	return chosen
}

// nextSibling returns the first pod of the namespace of another one, if both are of one PodGroup; nil if there is none, or no other namespace waits.
func (l *queueSnapshot) nextSibling(of *corev1.Pod, before func(a, b *corev1.Pod) bool) *corev1.Pod {
	c := l.byNamespace[of.Namespace]
	if c == nil || len(l.namespaces) < 2 {
		return nil
	}
	first := c.firstPod(before)
	if first == nil || gang.KeyOf(first) != gang.KeyOf(of) {
		return nil
	}
	return first
}

// markTaken records that a pod has left the queue.
func (l *queueSnapshot) markTaken(pod *corev1.Pod) {
	c := l.byNamespace[pod.Namespace]
	if c == nil {
		return
	}
	if c.taken == nil {
		c.taken = sets.New[types.UID]()
	}
	c.taken.Insert(pod.UID)
}

// firstPod returns the first pod that was not taken yet.
func (c *namespacePods) firstPod(before func(a, b *corev1.Pod) bool) *corev1.Pod {
	if !c.sorted {
		slices.SortFunc(c.pods, func(a, b *corev1.Pod) int {
			switch {
			case before(a, b):
				return -1
			case before(b, a):
				return 1
			}
			return 0
		})
		c.sorted = true
	}
	for len(c.pods) > 0 && c.taken.Has(c.pods[0].UID) {
		c.taken.Delete(c.pods[0].UID)
		c.pods = c.pods[1:]
	}
	if len(c.pods) == 0 {
		return nil
	}
	return c.pods[0]
}
