// Package hint is the common part of our plugins' queueing hints: a hint tells kube-scheduler whether an event may make room for a waiting pod.
package hint

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

// QueueIf queues the pod if an event helps it.
func QueueIf(helps bool) fwk.QueueingHint {
	if helps {
		return fwk.Queue
	}
	return fwk.QueueSkip
}

// TypedObjects returns the two objects of an event with their type. Either may be nil.
func TypedObjects[T any](oldObj, newObj any) (before, after T, err error) {
	if oldObj != nil {
		if before, err = typedObject[T](oldObj); err != nil {
			return before, after, err
		}
	}
	if newObj != nil {
		after, err = typedObject[T](newObj)
	}
	return before, after, err
}

func typedObject[T any](obj any) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, fmt.Errorf("reading an event: object is %T, want %T", obj, typed)
	}
	return typed, nil
}
