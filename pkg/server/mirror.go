package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/feed"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// view is an immutable snapshot of the cluster with derived data for lists.
type view struct {
	inventory.State
	// jobNamespaces are the namespaces that have jobs, sorted.
	jobNamespaces []string
	// jobsVersion is the ID of the last change of a job that the view has.
	jobsVersion string
	taken       time.Time

	findUsage   sync.Once
	cachedUsage usage.Usage
	cachedGPUs  map[string][]usage.GPU
	findRows    sync.Once
	cachedRows  []mapRow
}

// clusterCache caches the newest view. Reading is cheap; each update replaces the whole view.
type clusterCache struct {
	current atomic.Pointer[view]
	jobs    *feed.Feed

	mu sync.Mutex
	// renewed is closed when a newer view arrives.
	renewed chan struct{}
}

func newClusterCache() *clusterCache {
	return &clusterCache{jobs: feed.New(), renewed: make(chan struct{})}
}

// setView replaces the view and wakes the waiters.
func (m *clusterCache) setView(state inventory.State, now time.Time) {
	namespaces := map[string]bool{}
	for i := range state.Jobs {
		namespaces[state.Jobs[i].Namespace] = true
	}
	m.jobs.Publish(state.Jobs)
	m.current.Store(&view{
		State: state, jobNamespaces: slices.Sorted(maps.Keys(namespaces)), jobsVersion: m.jobs.LatestID(), taken: now,
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.renewed)
	m.renewed = make(chan struct{})
}

// latestView returns the newest view, or an error before the first one.
func (m *clusterCache) latestView() (*view, error) {
	if v := m.current.Load(); v != nil {
		return v, nil
	}
	return nil, &unavailableError{"the server has only just started and is still reading the cluster: try again in a second"}
}

func (m *clusterCache) nextRenewal() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renewed
}

// showWait is how long a write waits until lists show it.
const showWait = 2 * time.Second

// waitUntilShown waits until the condition holds for a view, for at most [showWait]. A caller that lists after a write should see the write, but late watches
// must not fail it.
func (m *clusterCache) waitUntilShown(ctx context.Context, shows func(*view) bool) {
	ctx, cancel := context.WithTimeout(ctx, showWait)
	defer cancel()
	for {
		renewed := m.nextRenewal()
		if v := m.current.Load(); v == nil || shows(v) {
			return
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return
		}
	}
}

// hasJob reports whether the view has exactly this object as a job.
func (v *view) hasJob(top metav1.Object) bool {
	return slices.ContainsFunc(v.Jobs, func(job inventory.Job) bool { return job.Object.UID == top.GetUID() })
}

// hasJobNamed reports whether the view shows a job.
func (v *view) hasJobNamed(ref submit.Ref) bool {
	return slices.ContainsFunc(v.Jobs, func(job inventory.Job) bool {
		return job.Namespace == ref.Namespace && job.Name == ref.Name && job.Kind == ref.Kind
	})
}

// hasActiveJob reports whether the view has the object as a job that is not terminating.
func (v *view) hasActiveJob(top metav1.Object) bool {
	return slices.ContainsFunc(v.Jobs, func(job inventory.Job) bool {
		return job.Object.UID == top.GetUID() && job.Status != inventory.StatusTerminating
	})
}
