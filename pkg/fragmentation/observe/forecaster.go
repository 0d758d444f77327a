package observe

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// Forecaster makes the forecasts of a scheduler profile. The zero value has made none. It may be used by many
// goroutines.
type Forecaster struct {
	mu      sync.Mutex
	pace    fragmentation.Pace
	current *fragmentation.Forecasts
	pods    podCount
	nodes   nodeTable
}

// Occasion is the scheduling attempt that forecasts are for.
type Occasion struct {
	Attempt int64
	// Pool is that of the pod, "" if it is in none.
	Pool string
	// Changes tell which nodes may have changed. nil do not.
	Changes *cycle.Changes
}

// CountAhead counts the pods that are there, before there is an attempt to make forecasts for, so that the first one need not. No forecast
// is another by that.
func (f *Forecaster) CountAhead(handle fwk.Handle) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods.catchUp(handle.SharedInformerFactory().Core().V1().Pods().Informer())
}

// Next returns the forecasts for an attempt. Pods are counted again every so many attempts; nodes are read again then,
// and when one comes or goes, or nothing is known of the pod's pool, whose first cards may have come a moment ago.
func (f *Forecaster) Next(handle fwk.Handle, devices Devices, now Occasion) (*fragmentation.Forecasts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	due := f.pace.DueAt(now.Attempt, f.pods.Len()) || f.current == nil
	changed := false
	if due || !cycle.SameNodes(nodes, f.nodes.listed) || now.Pool != "" && !f.current.Has(now.Pool) {
		changed = f.nodes.update(nodes, now.Changes, devices)
	}
	if due {
		if err := f.pods.follow(handle.SharedInformerFactory().Core().V1().Pods().Informer()); err != nil {
			return nil, err
		}
	}
	if due || changed {
		f.current = f.current.Next(f.nodes.pools, &f.pods.PodCount)
	}
	return f.current, nil
}
