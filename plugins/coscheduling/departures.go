package coscheduling

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// recount is how long after an eviction the disruption budgets are assumed not to have counted it. The disruption controller takes
	// a second or two.
	recount = 10 * time.Second
	// firstStay is how long a pod is spared after its eviction was refused. It doubles each time, up to maxRefusalBackoff.
	firstStay, longestStay = 30 * time.Second, time.Hour
)

// departures tracks recent evictions: disruption budgets have not counted them yet, and some were refused. All profiles share it.
type departures struct {
	mu sync.Mutex
	// asked are the evicted pods and until when they count. The zero time means as long as the eviction is under way.
	asked map[types.UID]departure
	stays map[types.UID]stay
}

type departure struct {
	pod   *corev1.Pod
	until time.Time
}

// stay is the backoff of a pod whose eviction was refused: its end and its duration.
type stay struct {
	until time.Time
	long  time.Duration
}

// begin records that pods are about to be evicted.
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

// end records the outcome: some of the pods were evicted, and the others stay.
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

// uncounted returns the evicted pods that budgets may not have counted yet.
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

// refuse records that the eviction of a pod was refused, and drops old entries.
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

// staysOf returns the pods that are spared now.
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
