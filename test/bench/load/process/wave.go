package process

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/bench/load"
	"g8s.host/gpu-scheduler/test/fixture"
)

// Wave measures how a scheduler works off one pod of high priority for each node, which asks for all of its GPUs, where pods of low
// priority and one GPU hold all that there are. They are gone as soon as they are evicted: there is no kubelet to wait for.
func (l *Lab) Wave(ctx context.Context, s Scheduler) (Result, error) {
	return l.backlog(ctx, s, l.fleet.Nodes, func(ctx context.Context) error {
		if err := l.FillWithSmall(ctx, 0); err != nil {
			return err
		}
		return each(ctx, l.fleet.Nodes, func(ctx context.Context, i int) error {
			pod := l.fleet.Pod(i, load.GPUsPerNode)
			pod.Spec.PriorityClassName = names.PriorityClassHigh
			_, err := l.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	})
}

// small returns the pod that holds one card of the i-th node.
func (l *Lab) small(i, card int) (*corev1.Pod, error) {
	node := fmt.Sprintf("node-%05d", i)
	held, err := gpu.Assignment{"main": {{UUID: fixture.UUID(node, card), Index: card}}}.Encode()
	if err != nil {
		return nil, fmt.Errorf("writing which card pod %d of %s holds: %w", card, node, err)
	}
	pod := l.fleet.Pod(i, 1)
	pod.Name = fmt.Sprintf("small-%05d-%d", i, card)
	pod.Annotations[names.AnnotationGPUDevices] = held
	pod.Spec.NodeName, pod.Spec.PriorityClassName = node, names.PriorityClassLow
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	return pod, nil
}
