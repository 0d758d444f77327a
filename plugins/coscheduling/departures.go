package coscheduling

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// recount is how long after an eviction its disruption budgets are taken not to have counted it. Kubernetes' controller takes
	// a second or two.
	recount = 10 * time.Second
	// firstStay is how long a pod is left alone that could not be evicted. Each time after that it is twice as long, up to
	// longestStay.
	firstStay, longestStay = 30 * time.Second, time.Hour
)

// departures is who was asked to leave of late: disruption budgets have not counted them yet, and some were not let go. The
// instances of all profiles share it.
type departures struct {
	mu sync.Mutex
	// asked are those about to leave, and until when they count; the zero time is for as long as it is under way.
	asked map[types.UID]departure
	stays map[types.UID]stay
}

type departure struct {
	pod   *corev1.Pod
	until time.Time
}

// stay is of a pod that could not be evicted: until when it is left alone, and for how long it was this time.
type stay struct {
	until time.Time
	long  time.Duration
}

// begin notes that pods are about to be evicted.
func (d *departures) begin(pods []*corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked == nil {
		d.asked = map[types.UID]departure{}
	}
	for _, pod := range pods {
		d.asked[pod.UID] = departure{pod: pod}
	}
}

// end notes that it is done: some of the pods were evicted, and the others stay.
func (d *departures) end(pods []*corev1.Pod, gone func(types.UID) bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, pod := range pods {
		if gone(pod.UID) {
			d.asked[pod.UID] = departure{pod: pod, until: now.Add(recount)}
		} else {
			delete(d.asked, pod.UID)
		}
	}
}

// uncounted are the pods that budgets may not have counted yet.
func (d *departures) uncounted(now time.Time) (pods []*corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, one := range d.asked {
		if !one.until.IsZero() && !now.Before(one.until) {
			delete(d.asked, uid)
			continue
		}
		pods = append(pods, one.pod)
	}
	return pods
}

// refuse notes that a pod could not be evicted. What was noted of others long ago is forgotten.
func (d *departures) refuse(pod types.UID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stays == nil {
		d.stays = map[types.UID]stay{}
	}
	for uid, one := range d.stays {
		if now.After(one.until.Add(longestStay)) {
			delete(d.stays, uid)
		}
	}
	long := min(max(firstStay, 2*d.stays[pod].long), longestStay)
	d.stays[pod] = stay{until: now.Add(long), long: long}
}

// staysOf returns the pods that are to be left alone now.
func (d *departures) staysOf(now time.Time) map[types.UID]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	stays := make(map[types.UID]bool, len(d.stays))
	for uid, one := range d.stays {
		if now.Before(one.until) {
			stays[uid] = true
		}
	}
	return stays
}
