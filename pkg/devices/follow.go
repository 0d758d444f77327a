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

// longestNote keeps an event's text below the 1,024 characters that the API server takes.
const longestNote = 900

// sink is what the ledger knows of the cluster outside of NodeInfos, once it follows it.
type sink struct{ cluster atomic.Pointer[cluster] }

type cluster struct {
	nodes    cache.Store
	recorder events.EventRecorder
}

// knows reports whether there is such a node, which is taken for granted until a cluster is followed.
func (s *sink) knows(node string) bool {
	c := s.cluster.Load()
	if c == nil {
		return true
	}
	_, ok, err := c.nodes.GetByKey(node)
	return ok && err == nil
}

// report tells the node's owners what of its inventory is ignored.
func (s *sink) report(node *corev1.Node, err error) {
	malformedInventories.Inc()
	c := s.cluster.Load()
	if c == nil || c.recorder == nil {
		return
	}
	var tooMany *gpu.TooManyError
	if errors.As(err, &tooMany) {
		c.recorder.Eventf(node, nil, corev1.EventTypeWarning, "TooManyGPUs", "Scheduling", "%.*s", longestNote, err.Error())
		return
	}
	c.recorder.Eventf(node, nil, corev1.EventTypeWarning, "MalformedInventory", "Scheduling",
		"%.*s; what is known without it is used", longestNote, err.Error())
}

// Follow drops pods and nodes when the cluster does, and reports malformed inventories as events. The first call
// counts: all profiles of a process have the same informers. A pod that ends is dropped like one that is deleted,
// since the scheduler's pod informer selects terminated pods away.
func (l *Ledger) Follow(_ context.Context, handle fwk.Handle) (err error) {
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

func (l *Ledger) nodeGone(obj any) {
	if node, ok := Last[*corev1.Node](obj); ok {
		l.dropNode(node.Name)
	}
}

func (l *Ledger) podGone(obj any) {
	if pod, ok := Last[*corev1.Pod](obj); ok {
		l.Forget(pod.UID)
	}
}

// podReplaced sees a pod deleted of which only its successor of the same name is reported, after a broken watch.
func (l *Ledger) podReplaced(before, after any) {
	old, okOld := before.(*corev1.Pod)
	pod, okNew := after.(*corev1.Pod)
	if okOld && okNew && old.UID != pod.UID {
		l.Forget(old.UID)
	}
}

// Last returns the last known state of an object that an informer reports as deleted, also if the watch was broken when
// that happened, and false if it is of another type.
func Last[T any](obj any) (T, bool) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	typed, ok := obj.(T)
	return typed, ok
}
