package usage

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Metrics reads the load of GPUs, such as a [gpumetrics.Client] bound to a time.
type Metrics func(context.Context) (gpumetrics.Samples, error)

// Read returns the usage of the cluster: it makes two requests to the API server, and calls metrics, which may be nil. If metrics cannot be read, or
// not completely, the second result says why, and the rest is valid.
func Read(ctx context.Context, client kubernetes.Interface, metrics Metrics) (out Usage, unmeasured, err error) {
	return readUsage(ctx, client, metrics, snapshot.Nodes(snapshot.Scope{Cached: true}), holdingPods(""))
}

// ReadJobs returns what the jobs of a namespace hold. It needs rights only in that namespace.
func ReadJobs(ctx context.Context, client kubernetes.Interface, namespace string, metrics Metrics) (out []Job, unmeasured, err error) {
	usage, unmeasured, err := readUsage(ctx, client, metrics, holdingPods(namespace))
	return usage.Jobs, unmeasured, err
}

func holdingPods(namespace string) snapshot.Query {
	return snapshot.Pods(snapshot.Scope{Namespace: namespace, Fields: snapshot.PlacedPods, Cached: true})
}

func readUsage(ctx context.Context, client kubernetes.Interface, metrics Metrics, wants ...snapshot.Query) (out Usage, unmeasured, err error) {
	var cluster *snapshot.Snapshot
	var samples gpumetrics.Samples
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		cluster, err = snapshot.Read(ctx, client, wants...)
		return err
	})
	if metrics != nil {
		group.Go(func() error {
			samples, unmeasured = metrics(ctx)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Usage{}, nil, err
	}
	return Build(cluster, samples), unmeasured, nil
}
