package usage

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// fromCache lets the API server answer from memory: a listing may be some milliseconds old.
const fromCache = "0"

// Metrics reads how busy GPUs are; [gpumetrics.Client] does, bound to a time.
type Metrics func(context.Context) (gpumetrics.Samples, error)

// Read returns the usage of the cluster: two requests to the API server, and those of metrics, which may be nil. When
// metrics cannot be read, or not all, the second result says why, and all else is there.
func Read(ctx context.Context, client kubernetes.Interface, metrics Metrics) (out Usage, unmeasured, err error) {
	var nodes *corev1.NodeList
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		nodes, err = client.CoreV1().Nodes().List(inner, metav1.ListOptions{ResourceVersion: fromCache})
		if err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		return nil
	})
	pods, samples, unmeasured, err := readWork(inner, client, metav1.NamespaceAll, metrics)
	if err != nil {
		return Usage{}, nil, err
	}
	if err := group.Wait(); err != nil {
		return Usage{}, nil, err
	}
	return Build(nodes.Items, pods, samples), unmeasured, nil
}

// ReadJobs returns what the jobs of a namespace hold, which needs no right beyond it.
func ReadJobs(ctx context.Context, client kubernetes.Interface, namespace string, metrics Metrics) (out []Job, unmeasured, err error) {
	pods, samples, unmeasured, err := readWork(ctx, client, namespace, metrics)
	if err != nil {
		return nil, nil, err
	}
	return Build(nil, pods, samples).Jobs, unmeasured, nil
}

// readWork reads the pods that hold a place, and how busy GPUs are.
func readWork(ctx context.Context, client kubernetes.Interface, namespace string, metrics Metrics) (
	pods []corev1.Pod, samples gpumetrics.Samples, unmeasured, err error,
) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		options := metav1.ListOptions{ResourceVersion: fromCache, FieldSelector: inventory.HoldsNode}
		list, err := client.CoreV1().Pods(namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		pods = list.Items
		return nil
	})
	if metrics != nil {
		group.Go(func() error {
			samples, unmeasured = metrics(ctx)
			return nil
		})
	}
	err = group.Wait()
	return pods, samples, unmeasured, err
}
