package observe

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// Forecaster computes the forecasts of a scheduler profile. The zero value is empty. It is safe for concurrent use.
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
	// Changes record which nodes may have changed. It may be nil.
	Changes *cycle.Changes
}

// CountAhead counts the existing pods before the first attempt, so that the attempt need not. It does not change any forecast.
func (f *Forecaster) CountAhead(handle fwk.Handle) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods.catchUp(handle.SharedInformerFactory().Core().V1().Pods().Informer())
}

// NextForecasts returns the forecasts for an attempt. Pods are counted again after a number of attempts. Nodes are read again then, and when one
// is added or removed, or the pod's pool is unknown because its first GPUs may have just been added.
func (f *Forecaster) NextForecasts(handle fwk.Handle, devices Devices, now Occasion) (*fragmentation.Forecasts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	due := f.pace.IsDueAt(now.Attempt, f.pods.Len()) || f.current == nil
	changed := false
	if due || !cycle.SameNodes(nodes, f.nodes.listed) || now.Pool != "" && !f.current.HasPool(now.Pool) {
		changed = f.nodes.updateNodes(nodes, now.Changes, devices)
	}
	if due {
		if err := f.pods.countRound(handle.SharedInformerFactory().Core().V1().Pods().Informer()); err != nil {
			return nil, err
		}
	}
	if due || changed {
		f.current = f.current.NextForecasts(f.nodes.pools, f.nodes.idle, &f.pods.PodCount)
	}
	return f.current, nil
}
