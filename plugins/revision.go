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

// watchRevision has a scheduler note, with each snapshot that it decides on, the last change of a pod that is in it. What
// the informer says of itself will not do: it hands changes on before it counts them, and the scheduler takes them in
// when it comes to it, on a busy machine dozens later. One goroutine feeds both cache and queue, in order.
func watchRevision(sched *scheduler.Scheduler, snapshot *cycle.Revision) {
	taken := &cycle.Revision{}
	sched.Cache = &watchedCache{Cache: sched.Cache, taken: taken, snapshot: snapshot}
	sched.SchedulingQueue = watchedQueue{SchedulingQueue: sched.SchedulingQueue, taken: taken}
}

// watchedCache knows the last change of a pod on a node that it was told of.
type watchedCache struct {
	cache.Cache
	taken, snapshot *cycle.Revision
	// mu keeps a snapshot from coming between a change and its note.
	mu sync.Mutex
}

// AddPod implements cache.Cache.
func (c *watchedCache) AddPod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.Reach(pod.ResourceVersion)
	return c.Cache.AddPod(logger, pod)
}

// UpdatePod implements cache.Cache.
func (c *watchedCache) UpdatePod(logger klog.Logger, before, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.Reach(pod.ResourceVersion)
	return c.Cache.UpdatePod(logger, before, pod)
}

// RemoveAssumedPod implements cache.Cache: the API server has told of a pod that it is being deleted.
func (c *watchedCache) RemoveAssumedPod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.Reach(pod.ResourceVersion)
	return c.Cache.RemoveAssumedPod(logger, pod)
}

// RemovePod implements cache.Cache.
func (c *watchedCache) RemovePod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken.Reach(pod.ResourceVersion)
	return c.Cache.RemovePod(logger, pod)
}

// UpdateSnapshot implements cache.Cache.
func (c *watchedCache) UpdateSnapshot(logger klog.Logger, snapshot *cache.Snapshot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot.Reach(c.taken.Version())
	return c.Cache.UpdateSnapshot(logger, snapshot)
}

// watchedQueue notes the changes of pods that wait: nominations are among them. It does not lock, since the queue is slow
// while it looks through those who wait.
type watchedQueue struct {
	queue.SchedulingQueue
	taken *cycle.Revision
}

// Add implements queue.SchedulingQueue.
func (q watchedQueue) Add(ctx context.Context, pod *corev1.Pod) {
	q.SchedulingQueue.Add(ctx, pod)
	q.taken.Reach(pod.ResourceVersion)
}

// Update implements queue.SchedulingQueue.
func (q watchedQueue) Update(ctx context.Context, before, pod *corev1.Pod) {
	q.SchedulingQueue.Update(ctx, before, pod)
	q.taken.Reach(pod.ResourceVersion)
}

// Delete implements queue.SchedulingQueue.
func (q watchedQueue) Delete(logger klog.Logger, pod *corev1.Pod) {
	q.SchedulingQueue.Delete(logger, pod)
	q.taken.Reach(pod.ResourceVersion)
}
