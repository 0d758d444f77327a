package plugins

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
)

// standbyPeriod is how often a standby scheduler reads what has changed.
const standbyPeriod = time.Second

// Standby reads, in a scheduler that does not lead, what its first attempt would read: nodes, what their pods hold, and what pods request. On
// 20,000 nodes that takes seconds, in which a new leader would place no pods. It decides nothing: the first attempt finds what it would have
// read itself, and reads what has changed since.
type Standby struct {
	scheduler *scheduler.Scheduler
	// snapshot is the scheduler's own, which belongs to its loop once that runs.
	snapshot    *cache.Snapshot
	deviceCache *devices.Cache
	scores      []*gpuscore.Plugin
	// readGeneration is the generation up to which nodes were read.
	readGeneration int64

	// mu is held while reading.
	mu        sync.Mutex
	isLeading bool
}

// NewStandby returns the standby of a scheduler, whose loop ends it when it asks for the first pod. It is called after [Wrap]. Without our
// plugins it reads nothing.
func NewStandby(sched *scheduler.Scheduler) *Standby {
	s := &Standby{scheduler: sched}
	for _, profile := range sched.Profiles {
		if snapshot, ok := profile.SnapshotSharedLister().(*cache.Snapshot); ok { // of all profiles the same
			s.snapshot = snapshot
		}
		for _, plugin := range profile.EnqueueExtensions() {
			switch plugin := plugin.(type) {
			case *gpufilter.Plugin:
				s.deviceCache = plugin.DeviceCache() // of all profiles the same
			case *gpuscore.Plugin:
				s.scores = append(s.scores, plugin)
			}
		}
	}
	next, asked := sched.NextEntity, false // one loop asks
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if !asked {
			asked = true
			s.stopReading()
		}
		return next(logger)
	}
	return s
}

// Run reads until the loop runs or ctx ends.
func (s *Standby) Run(ctx context.Context) {
	if s.scheduler.WaitForHandlersSync(ctx) != nil {
		return
	}
	for s.Read(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(standbyPeriod):
		}
	}
}

// Read reads what has changed since the last call, in small steps: a starting loop waits for the current one. It returns false when it is no
// longer needed.
func (s *Standby) Read(ctx context.Context) bool {
	var changed []fwk.NodeInfo
	if s.snapshot == nil || s.deviceCache == nil || !s.runStep(func() { changed = s.changedNodes(ctx) }) {
		return false
	}
	for _, node := range changed {
		if !s.runStep(func() { s.deviceCache.NodeView(node) }) {
			return false
		}
	}
	for _, plugin := range s.scores {
		if !s.runStep(func() { _ = plugin.CountAhead() }) { // the first attempt says what is wrong
			return false
		}
	}
	return true
}

// runStep runs a function, unless the loop runs.
func (s *Standby) runStep(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isLeading {
		return false
	}
	do()
	return true
}

// stopReading stops all reads.
func (s *Standby) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isLeading = true
}

// changedNodes takes a snapshot, and returns the nodes that differ from the last one.
func (s *Standby) changedNodes(ctx context.Context) (changed []fwk.NodeInfo) {
	if err := s.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), s.snapshot); err != nil {
		return nil // the cache has logged it, and recovers with the next snapshot
	}
	nodes, err := s.snapshot.NodeInfos().List()
	if err != nil {
		return nil // it is in memory
	}
	newest := s.readGeneration
	for _, node := range nodes {
		if generation := node.GetGeneration(); generation > s.readGeneration {
			changed = append(changed, node)
			newest = max(newest, generation)
		}
	}
	s.readGeneration = newest
	return changed
}
