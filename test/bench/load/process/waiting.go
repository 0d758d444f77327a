package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bench/load"
)

// Waited is what a scheduler took while gangs waited, in cores.
type Waited struct {
	// First is the CPU time until each had been tried once.
	First time.Duration
	// Still is while nothing happened, and Churning while each second a pod that held a node ended and another took its place.
	Still, Churning float64
}

// Waiting measures what a scheduler takes for gangs that wait, for so long without and so long with changes.
func (l *Lab) Waiting(ctx context.Context, s Scheduler, gangs Gangs, long time.Duration) (waited Waited, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*long+patience)
	defer cancel()
	defer func() { err = errors.Join(err, l.deletePods(ctx), l.deleteAll(ctx, podGroups)) }()
	if err := l.fill(ctx); err != nil {
		return Waited{}, fmt.Errorf("filling the nodes: %w", err)
	}
	if err := l.createGangs(ctx, gangs); err != nil {
		return Waited{}, fmt.Errorf("creating %d gangs: %w", gangs.Count, err)
	}
	process, err := l.start(ctx, s)
	if err != nil {
		return Waited{}, err
	}
	defer func() { err = errors.Join(err, process.Stop()) }()
	if waited.First, err = l.settled(ctx, process, gangs.Count); err != nil {
		return Waited{}, err
	}
	if waited.Still, err = cores(ctx, process, long, func(context.Context, int) error { return nil }); err != nil {
		return Waited{}, err
	}
	waited.Churning, err = cores(ctx, process, long, l.replace)
	return waited, err
}

// held returns the pod that holds all GPUs of the i-th node.
func (l *Lab) held(i int, generation string) *corev1.Pod {
	pod := l.fleet.Pod(i, load.GPUsPerNode)
	pod.Name = fmt.Sprintf("held-%05d%s", i, generation)
	pod.Spec.NodeName = fmt.Sprintf("node-%05d", i)
	return pod
}

// fill has a pod hold all GPUs of each node.
func (l *Lab) fill(ctx context.Context) error {
	return each(ctx, l.fleet.Nodes, func(ctx context.Context, i int) error {
		_, err := l.client.CoreV1().Pods(namespace).Create(ctx, l.held(i, ""), metav1.CreateOptions{})
		return err
	})
}

// settled returns the CPU time of a scheduler when it has come to rest, which it need not do: each gang was tried, and nothing is
// left to do for now.
func (l *Lab) settled(ctx context.Context, process *sandbox.Process, gangs int) (time.Duration, error) {
	const look, rest = 5 * time.Second, 2 * time.Minute
	began := time.Now()
	for last := time.Duration(0); ; {
		used, err := wait(ctx, process, look)
		if err != nil {
			return 0, err
		}
		tried, err := l.triedGangs(ctx)
		if err != nil {
			return 0, err
		}
		if tried == gangs && (used-last < look/5 || time.Since(began) > rest) {
			return used, nil
		}
		last = used
	}
}

// triedGangs is of how many gangs a pod was told why it waits.
func (l *Lab) triedGangs(ctx context.Context) (int, error) {
	pods, err := l.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: names.LabelPodGroup})
	if err != nil {
		return 0, fmt.Errorf("listing the pods of gangs: %w", err)
	}
	tried := map[string]bool{}
	for i := range pods.Items {
		if len(pods.Items[i].Status.Conditions) > 0 {
			tried[pods.Items[i].Labels[names.LabelPodGroup]] = true
		}
	}
	return len(tried), nil
}

// wait returns the CPU time of a process after a while.
func wait(ctx context.Context, process *sandbox.Process, long time.Duration) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-process.Done():
		return 0, fmt.Errorf("the scheduler has ended; the end of its log:\n%s", process.LogTail())
	case <-time.After(long):
	}
	used, err := usageOf(process.PID())
	if err != nil { // it is ending
		err = fmt.Errorf("%w; the end of its log:\n%s", err, process.LogTail())
	}
	return used.cpu, err
}

// cores is what a process takes while something is done each second.
func cores(ctx context.Context, process *sandbox.Process, long time.Duration, do func(context.Context, int) error) (float64, error) {
	before, err := usageOf(process.PID())
	if err != nil {
		return 0, err
	}
	began, after := time.Now(), time.Duration(0)
	for i := 0; time.Since(began) < long; i++ {
		if err := do(ctx, i); err != nil {
			return 0, err
		}
		if after, err = wait(ctx, process, time.Second); err != nil {
			return 0, err
		}
	}
	return (after - before.cpu).Seconds() / time.Since(began).Seconds(), nil
}

// replace ends the pod that holds a node, and has another take its place.
func (l *Lab) replace(ctx context.Context, i int) error {
	pods, node := l.client.CoreV1().Pods(namespace), i%l.fleet.Nodes
	if err := pods.Delete(ctx, l.held(node, "").Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		return fmt.Errorf("ending a pod: %w", err)
	}
	if _, err := pods.Create(ctx, l.held(node, "-b"), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("taking its place: %w", err)
	}
	return nil
}
