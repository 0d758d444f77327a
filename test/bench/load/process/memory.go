package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bench/load"
)

// FillWithSmall has a pod hold each card of each node, and so many others wait for one.
func (l *Lab) FillWithSmall(ctx context.Context, waiting int) error {
	err := each(ctx, l.fleet.Nodes*load.GPUsPerNode, func(ctx context.Context, i int) error {
		pod, err := l.small(i/load.GPUsPerNode, i%load.GPUsPerNode)
		if err != nil {
			return err
		}
		_, err = l.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("filling the nodes: %w", err)
	}
	err = each(ctx, waiting, func(ctx context.Context, i int) error {
		pod := l.fleet.Pod(i, 1)
		pod.Spec.PriorityClassName = names.PriorityClassLow // who holds the cards cannot be evicted for it
		_, err := l.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating %d pods that wait: %w", waiting, err)
	}
	return nil
}

// Memory measures the most memory that a scheduler takes, in bytes, from its start until it has tried so many pods for which there is no
// room, and the CPU time until then.
func (l *Lab) Memory(ctx context.Context, s Scheduler, tried int) (peak int64, cpu time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	process, err := l.start(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, process.Stop()) }()
	for {
		if _, err := wait(ctx, process, time.Second); err != nil {
			return 0, 0, err
		}
		counted, err := l.scrape(process.Port())
		if err != nil {
			return 0, 0, err
		}
		if counted.unschedulable() >= tried {
			used, err := usageOf(process.PID())
			return used.peak, used.cpu, err
		}
	}
}
