package plugins

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// watchRevision records, with each snapshot that the scheduler decides on, the last pod change in it. The informer's own revision is not usable:
// it delivers changes before it counts them, and on a busy machine the scheduler processes them dozens of changes later. One goroutine feeds
// both cache and queue, in order.
func watchRevision(sched *scheduler.Scheduler, snapshot *cycle.Revision) {
	taken := &cycle.Revision{}
	sched.Cache = &watchedCache{Cache: sched.Cache, taken: taken, snapshot: snapshot}
	sched.SchedulingQueue = watchedQueue{SchedulingQueue: sched.SchedulingQueue, taken: taken}
}

// watchedCache knows the last change of a pod on a node that it has received.
type watchedCache struct {
	cache.Cache
	taken, snapshot *cycle.Revision
	// mu prevents a snapshot between a change and its record.
	mu sync.Mutex
}

// AddPod implements cache.Cache.
func (c *watchedCache) AddPod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.AdvanceTo(pod.ResourceVersion)
	return c.Cache.AddPod(logger, pod)
}

// UpdatePod implements cache.Cache.
func (c *watchedCache) UpdatePod(logger klog.Logger, before, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.AdvanceTo(pod.ResourceVersion)
	return c.Cache.UpdatePod(logger, before, pod)
}

// RemoveAssumedPod implements cache.Cache: the API server has reported that a pod is being deleted.
func (c *watchedCache) RemoveAssumedPod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.AdvanceTo(pod.ResourceVersion)
	return c.Cache.RemoveAssumedPod(logger, pod)
}

// RemovePod implements cache.Cache.
func (c *watchedCache) RemovePod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.AdvanceTo(pod.ResourceVersion)
	return c.Cache.RemovePod(logger, pod)
}

// UpdateSnapshot implements cache.Cache.
func (c *watchedCache) UpdateSnapshot(logger klog.Logger, snapshot *cache.Snapshot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot.AdvanceTo(c.taken.Version())
	return c.Cache.UpdateSnapshot(logger, snapshot)
}

// watchedQueue records the changes of waiting pods, which include nominations. It takes no lock, since the queue is slow while it goes through
// its waiting pods.
type watchedQueue struct {
	queue.SchedulingQueue
	taken *cycle.Revision
}

// Add implements queue.SchedulingQueue.
func (q watchedQueue) Add(ctx context.Context, pod *corev1.Pod) {
	q.SchedulingQueue.Add(ctx, pod)
	q.taken.AdvanceTo(pod.ResourceVersion)
}

// Update implements queue.SchedulingQueue.
func (q watchedQueue) Update(ctx context.Context, before, pod *corev1.Pod) {
	q.SchedulingQueue.Update(ctx, before, pod)
	q.taken.AdvanceTo(pod.ResourceVersion)
}

// Delete implements queue.SchedulingQueue.
func (q watchedQueue) Delete(logger klog.Logger, pod *corev1.Pod) {
	q.SchedulingQueue.Delete(logger, pod)
	q.taken.AdvanceTo(pod.ResourceVersion)
}
