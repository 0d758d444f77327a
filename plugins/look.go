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

// look is a snapshot of the active queue, limited to pods of the highest priority.
type look struct {
	at   time.Time
	took time.Duration
	// of are the pods of each namespace, and namespaces the namespaces. Both are empty if some pods come before all others of their
	// priority anyway.
	of      map[string]*crowd
	spaces  []string
	highest int32
}

// crowd are the pods of a namespace.
type crowd struct {
	pods   []*corev1.Pod
	sorted bool
	// taken are pods that were taken since, including later arrivals.
	taken sets.Set[types.UID]
}

func lookAt(queued []*corev1.Pod, first func(*corev1.Pod) bool) look {
	l := look{of: map[string]*crowd{}}
	for i, pod := range queued {
		if priority := corev1helpers.PodPriority(pod); i == 0 || priority > l.highest {
			l.highest = priority
		}
	}
	for _, pod := range queued {
		if corev1helpers.PodPriority(pod) < l.highest {
			continue
		}
		if first(pod) {
			return look{}
		}
		c := l.crowdOf(pod.Namespace)
		c.pods = append(c.pods, pod)
	}
	slices.Sort(l.spaces)
	return l
}

func (l *look) crowdOf(space string) *crowd {
	c := l.of[space]
	if c == nil {
		c = &crowd{}
		l.of[space] = c
		l.spaces = append(l.spaces, space)
	}
	return c
}

// largeCrowd is the size of a namespace in a snapshot beyond which no pods are added: the next snapshot finds them.
const largeCrowd = 1000

// add adds recent arrivals to a snapshot, so that a single pod need not wait for the next snapshot.
func (l *look) add(news []*corev1.Pod) {
	if l.of == nil {
		return
	}
	for _, pod := range news {
		if corev1helpers.PodPriority(pod) != l.highest {
			continue
		}
		c := l.crowdOf(pod.Namespace)
		if len(c.pods) >= largeCrowd {
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

// choose returns the first pod of the namespaces whose turn it is, nil if it is the turn of all waiting namespaces.
func (l *look) choose(share *fair.Turns, before func(a, b *corev1.Pod) bool) *corev1.Pod {
	waiting := slices.DeleteFunc(slices.Clone(l.spaces), func(space string) bool { return len(l.of[space].pods) <= len(l.of[space].taken) })
	next := share.Next(waiting)
	if len(next) == len(waiting) {
		return nil
	}
	var chosen *corev1.Pod
	for _, space := range next {
		if first := l.of[space].first(before); first != nil && (chosen == nil || before(first, chosen)) {
			chosen = first
		}
	}
	return chosen
}

// sibling returns the first pod of the namespace of another one, if both are of one PodGroup; nil if there is none, or no other namespace waits.
func (l *look) sibling(of *corev1.Pod, before func(a, b *corev1.Pod) bool) *corev1.Pod {
	c := l.of[of.Namespace]
	if c == nil || len(l.spaces) < 2 {
		return nil
	}
	first := c.first(before)
	if first == nil || gang.KeyOf(first) != gang.KeyOf(of) {
		return nil
	}
	return first
}

// take records that a pod has left the queue.
func (l *look) take(pod *corev1.Pod) {
	c := l.of[pod.Namespace]
	if c == nil {
		return
	}
	if c.taken == nil {
		c.taken = sets.New[types.UID]()
	}
	c.taken.Insert(pod.UID)
}

// first returns the first pod that was not taken yet.
func (c *crowd) first(before func(a, b *corev1.Pod) bool) *corev1.Pod {
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
