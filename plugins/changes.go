package plugins

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// trackNodeChanges makes a scheduler report to its plugins which nodes of a snapshot may differ from the one before. Otherwise they have to look at
// each node, which at 20,000 nodes costs more than everything else.
func trackNodeChanges(sched *scheduler.Scheduler) {
	changes, schedule := &cycle.Changes{}, sched.SchedulePod
	sched.Cache = &changingCache{Cache: sched.Cache, changes: changes}
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, cs fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		cycle.WriteChanges(cs, changes)
		return schedule(ctx, profile, cs, pod)
	}
}

// changingCache records which nodes change.
type changingCache struct {
	cache.Cache
	changes *cycle.Changes
	// mu prevents a snapshot between a change and its record.
	mu sync.Mutex
}

// notePod records the node of a pod, and the node where the cache still has it.
func (c *changingCache) notePod(pod *corev1.Pod) {
	node := pod.Spec.NodeName
	if node != "" {
		c.changes.RecordNode(node)
	}
	if known, err := c.GetPod(pod); err == nil && known.Spec.NodeName != node {
		c.changes.RecordNode(known.Spec.NodeName)
	}
}

// AssumePod implements cache.Cache.
func (c *changingCache) AssumePod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notePod(pod)
	return c.Cache.AssumePod(logger, pod)
}

// ForgetPod implements cache.Cache.
func (c *changingCache) ForgetPod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notePod(pod)
	return c.Cache.ForgetPod(logger, pod)
}

// RemoveAssumedPod implements cache.Cache: a pod that is deleted during its binding releases its place at once.
func (c *changingCache) RemoveAssumedPod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notePod(pod)
	return c.Cache.RemoveAssumedPod(logger, pod)
}

// AddPod implements cache.Cache.
func (c *changingCache) AddPod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notePod(pod)
	return c.Cache.AddPod(logger, pod)
}

// UpdatePod implements cache.Cache.
func (c *changingCache) UpdatePod(logger klog.Logger, before, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notePod(before)
	c.notePod(pod)
	return c.Cache.UpdatePod(logger, before, pod)
}

// RemovePod implements cache.Cache.
func (c *changingCache) RemovePod(logger klog.Logger, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notePod(pod)
	return c.Cache.RemovePod(logger, pod)
}

// AddNode implements cache.Cache.
func (c *changingCache) AddNode(logger klog.Logger, node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes.RecordNode(node.Name)
	c.Cache.AddNode(logger, node)
}

// UpdateNode implements cache.Cache.
func (c *changingCache) UpdateNode(logger klog.Logger, before, node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes.RecordNode(node.Name)
	c.Cache.UpdateNode(logger, before, node)
}

// RemoveNode implements cache.Cache.
func (c *changingCache) RemoveNode(logger klog.Logger, node *corev1.Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes.RecordNode(node.Name)
	return c.Cache.RemoveNode(logger, node)
}

// UpdateSnapshot implements cache.Cache.
func (c *changingCache) UpdateSnapshot(logger klog.Logger, snapshot *cache.Snapshot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes.RecordSnapshot()
	return c.Cache.UpdateSnapshot(logger, snapshot)
}
