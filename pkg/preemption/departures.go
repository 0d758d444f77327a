package preemption

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

const (
	// budgetRecountTime is how long after an eviction the disruption budgets are assumed not to have counted it. The disruption controller takes
	// a second or two.
	budgetRecountTime = 10 * time.Second
	// firstRefusalBackoff is how long a pod is spared after its eviction was refused. It doubles each time, up to maxRefusalBackoff.
	firstRefusalBackoff, maxRefusalBackoff = 30 * time.Second, time.Hour
)

// Departures tracks recent evictions: disruption budgets have not counted them yet, and some were refused. All profiles share it.
type Departures struct {
	mu sync.Mutex
	// asked are the evicted pods and until when they count. The zero time means as long as the eviction is under way.
	asked    map[types.UID]departure
	refusals map[types.UID]phase.Backoff
}

type departure struct {
	pod   *corev1.Pod
	until time.Time
}

// BeginEvictions records that pods are about to be evicted.
func (d *Departures) BeginEvictions(pods []*corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked == nil {
		d.asked = map[types.UID]departure{}
	}
	for _, pod := range pods {
		d.asked[pod.UID] = departure{pod: pod}
	}
}

// EndEvictions records the outcome: some of the pods were evicted, and the others stay.
func (d *Departures) EndEvictions(pods []*corev1.Pod, gone func(types.UID) bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, pod := range pods {
		if gone(pod.UID) {
			d.asked[pod.UID] = departure{pod: pod, until: now.Add(budgetRecountTime)}
		} else {
			delete(d.asked, pod.UID)
		}
	}
}

// UncountedPods returns the evicted pods that budgets may not have counted yet.
func (d *Departures) UncountedPods(now time.Time) (pods []*corev1.Pod) {
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

// RecordRefusal records that the eviction of a pod was refused, and drops old entries.
func (d *Departures) RecordRefusal(pod types.UID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusals == nil {
		d.refusals = map[types.UID]phase.Backoff{}
	}
	for uid, one := range d.refusals {
		if now.After(one.Until.Add(maxRefusalBackoff)) {
			delete(d.refusals, uid)
		}
	}
	backoff := d.refusals[pod]
	backoff.GrowBackoff(firstRefusalBackoff, maxRefusalBackoff, now)
	d.refusals[pod] = backoff
}

// RefusedPods returns the pods that are spared now.
func (d *Departures) RefusedPods(now time.Time) map[types.UID]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	stays := make(map[types.UID]bool, len(d.refusals))
	for uid, one := range d.refusals {
		if now.Before(one.Until) {
			stays[uid] = true
		}
	}
	return stays
}
