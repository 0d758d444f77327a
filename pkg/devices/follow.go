package devices

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// maxNoteLength keeps an event's text below the 1,024 characters that the API server takes.
const maxNoteLength = 900

// clusterSink is the cluster state outside of NodeInfos, once it is watched.
type clusterSink struct{ cluster atomic.Pointer[cluster] }

type cluster struct {
	nodes    cache.Store
	recorder events.EventRecorder
}

// hasNode reports whether a node exists, which is assumed until a cluster is watched.
func (s *clusterSink) hasNode(node string) bool {
	c := s.cluster.Load()
	if c == nil {
		return true
	}
	_, ok, err := c.nodes.GetByKey(node)
	return ok && err == nil
}

// reportProblem emits an event about the ignored part of a node's inventory.
func (s *clusterSink) reportProblem(node *corev1.Node, err error) {
	malformedInventories.Inc()
	c := s.cluster.Load()
	if c == nil || c.recorder == nil {
		return
	}
	var tooMany *gpu.TooManyError
	if errors.As(err, &tooMany) {
		c.recorder.Eventf(node, nil, corev1.EventTypeWarning, "TooManyGPUs", "Scheduling", "%.*s", maxNoteLength, err.Error())
		return
	}
	c.recorder.Eventf(node, nil, corev1.EventTypeWarning, "MalformedInventory", "Scheduling",
		"%.*s; what is known without it is used", maxNoteLength, err.Error())
}

// WatchCluster drops pods and nodes when the cluster does, and reports malformed inventories as events. Only the first call has an effect: all
// profiles of a process share the informers. A pod that ends is dropped like a deleted one, since the scheduler's pod informer filters out
// terminated pods.
func (l *Cache) WatchCluster(_ context.Context, handle fwk.Handle) (err error) {
	l.follow.Do(func() {
		registerMetrics()
		informers := handle.SharedInformerFactory().Core().V1()
		nodes := informers.Nodes().Informer()
		l.sink.cluster.Store(&cluster{nodes: nodes.GetStore(), recorder: handle.EventRecorder()})
		if _, err = nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: l.nodeGone}); err != nil {
			err = fmt.Errorf("watching nodes that are deleted: %w", err)
			return
		}
		gone := cache.ResourceEventHandlerFuncs{UpdateFunc: l.podReplaced, DeleteFunc: l.podGone}
		if _, err = informers.Pods().Informer().AddEventHandler(gone); err != nil {
			err = fmt.Errorf("watching pods that are deleted: %w", err)
		}
	})
	return err
}

func (l *Cache) nodeGone(obj any) {
	if node, ok := LastKnown[*corev1.Node](obj); ok {
		l.dropNode(node.Name)
	}
}

func (l *Cache) podGone(obj any) {
	if pod, ok := LastKnown[*corev1.Pod](obj); ok {
		l.ForgetPod(pod.UID)
	}
}

// podReplaced detects a deleted pod of which only the successor of the same name is reported, after a broken watch.
func (l *Cache) podReplaced(before, after any) {
	old, okOld := before.(*corev1.Pod)
	pod, okNew := after.(*corev1.Pod)
	if okOld && okNew && old.UID != pod.UID {
		l.ForgetPod(old.UID)
	}
}

// LastKnown returns the last known state of an object that an informer reports as deleted, also if the watch was broken at that time, and false if it
// is of another type.
func LastKnown[T any](obj any) (T, bool) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	typed, ok := obj.(T)
	return typed, ok
}
