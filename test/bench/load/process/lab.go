// Package process measures schedulers that run as processes of their own, each in turn against the same API server,
// nodes and pods. What a scheduler used is the operating system's word, and what it did is its own metrics'.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bench/load"
)

const (
	namespace = "perf"
	// writers is how many requests create nodes and pods at the same time.
	writers = 32
	// patience bounds one measurement. The slowest takes a few minutes on two busy cores.
	patience = 20 * time.Minute
)

// Lab is an API server with a fleet of nodes, which nobody drives: their kubelets are of no interest here.
type Lab struct {
	sandbox *sandbox.Sandbox
	config  *rest.Config
	client  kubernetes.Interface
	fleet   load.Fleet
}

// NewLab starts a control plane and registers the nodes. Progress gets a line for each step.
func NewLab(ctx context.Context, fleet load.Fleet, progress io.Writer) (*Lab, error) {
	s, err := sandbox.Start(ctx, sandbox.Options{Progress: progress})
	if err != nil {
		return nil, err
	}
	l := &Lab{sandbox: s, config: s.RESTConfig(), fleet: fleet}
	if err := l.furnish(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return l, nil
}

// Close ends the control plane.
func (l *Lab) Close() error { return l.sandbox.Stop() }

// furnish creates what every measurement needs.
func (l *Lab) furnish(ctx context.Context) (err error) {
	l.config.ContentType = runtime.ContentTypeProtobuf
	if l.client, err = kubernetes.NewForConfig(l.config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := l.sandbox.InstallScheduler(ctx); err != nil {
		return err
	}
	// The stock scheduler knows nothing of the epoch without which the policies let nobody bind.
	err = l.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("taking away the policies that fence the scheduler: %w", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := l.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	nodes, err := l.fleet.NodeList()
	if err != nil {
		return err
	}
	return each(ctx, len(nodes), func(ctx context.Context, i int) error {
		_, err := l.client.CoreV1().Nodes().Create(ctx, nodes[i], metav1.CreateOptions{})
		return err
	})
}

// createPods creates pods of so many GPUs, which wait while no scheduler runs.
func (l *Lab) createPods(ctx context.Context, count int, gpus int64) error {
	return each(ctx, count, func(ctx context.Context, i int) error {
		_, err := l.client.CoreV1().Pods(namespace).Create(ctx, l.fleet.Pod(i, gpus), metav1.CreateOptions{})
		return err
	})
}

// each calls do for 0 to count-1, some at a time, until one fails.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range count {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// deletePods takes all pods away and waits until they are gone.
func (l *Lab) deletePods(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	pods := l.client.CoreV1().Pods(namespace)
	for {
		if err := pods.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil && !apierrors.IsTimeout(err) {
			return fmt.Errorf("deleting the pods: %w", err)
		}
		left, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("counting the pods that are left: %w", err)
		}
		if len(left.Items) == 0 {
			return nil
		}
	}
}
