package queue

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// estimateLifetime is how long estimates stay valid: computing them may take a second of a core.
const estimateLifetime = 30 * time.Second

// EstimateCache estimates when jobs start from past runs. Callers that read a queue repeatedly share one, which is recomputed from time to time. It is
// not safe for concurrent use.
type EstimateCache struct {
	past      *survival.History
	estimates StartEstimates
	until     time.Time
}

// NewEstimateCache uses past runs, nil for none.
func NewEstimateCache(past *survival.History) *EstimateCache { return &EstimateCache{past: past} }

// estimatesFor returns estimates that are not much older than a queue.
func (f *EstimateCache) estimatesFor(q *Queue, objects *snapshot.Snapshot) StartEstimates {
	if f.estimates == nil || !objects.Now.Before(f.until) {
		f.estimates, f.until = q.EstimateStarts(objects, f.past, objects.Now), objects.Now.Add(estimateLifetime)
	}
	return f.estimates
}

// Read returns the queues of all pools, with ten requests, and the estimated starts. A user who may not read the pods of all namespaces gets those
// of one, and [Queue].Partial is set. Other objects that may not be read in all namespaces are read in that one, and are listed in [Queue].Unread.
// Without the right to list nodes there are no estimates.
func Read(ctx context.Context, client kubernetes.Interface, namespace string, foreseen *EstimateCache, now time.Time) (Queue, error) {
	// It also reads ended pods, which belong to jobs.
	all, own := snapshot.Scope{Cached: true}, snapshot.Scope{Namespace: namespace, Cached: true}
	deployments, ownDeployments := all, own // those of others tell no more than their pods
	deployments.Labels, ownDeployments.Labels = names.LabelJob, names.LabelJob
	read, err := snapshot.Read(ctx, client,
		snapshot.Pods(all).OrElse(snapshot.Pods(own)),
		snapshot.Jobs(all).OrElse(snapshot.Jobs(own)),
		snapshot.Deployments(deployments).OrElse(snapshot.Deployments(ownDeployments)),
		inventory.RefusalEvents(namespace),
		snapshot.Quotas(all).OrElse(snapshot.Quotas(own).IfAllowed()),
		snapshot.Nodes(all).IfAllowed(), snapshot.GPUReservations().IfAllowed(), snapshot.GPUQuotas().IfAllowed(), snapshot.Lease().IfAllowed(), snapshot.Clock(now))
	if err != nil {
		return Queue{}, err
	}
	partial := !read.HasPart(snapshot.PartAllPods)
	if partial { // the holders of nodes are known only with the pods of all namespaces
		read.Nodes = nil
	}
	out := Build(read, inventory.Build(read).Jobs, read.Leader(), read.Now)
	out.ApplyEstimates(foreseen.estimatesFor(&out, read), read.Now)
	out.Partial, out.Unread = partial, read.Unread
	return out, nil
}
