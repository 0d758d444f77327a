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

// Read returns the lines of all pools, in nine requests, and when jobs start by what the past tells, nil for nothing. A user
// who may not read the pods of all namespaces gets those of one, and [Queue].Partial says so; what else may not be read of all
// namespaces is read of that one, and is in [Queue].Unread. Without the right to list nodes there are no estimates.
func Read(ctx context.Context, client kubernetes.Interface, namespace string, past *survival.History, now time.Time) (Queue, error) {
	// Pods that have ended are read, too: a job has had them.
	all, own := snapshot.Scope{Cached: true}, snapshot.Scope{Namespace: namespace, Cached: true}
	jobs, ownJobs := all, own
	jobs.Labels, ownJobs.Labels = names.LabelJob, names.LabelJob
	read, err := snapshot.Read(ctx, client,
		snapshot.Pods(all).Or(snapshot.Pods(own)),
		snapshot.Jobs(jobs).Or(snapshot.Jobs(ownJobs)),
		snapshot.Deployments(jobs).Or(snapshot.Deployments(ownJobs)),
		snapshot.Quotas(all).Or(snapshot.Quotas(own).IfAllowed()),
		snapshot.Nodes(all).IfAllowed(), snapshot.GPUReservations().IfAllowed(), snapshot.GPUQuotas().IfAllowed(), snapshot.Lease().IfAllowed(), snapshot.Clock(now))
	if err != nil {
		return Queue{}, err
	}
	partial := !read.Has(snapshot.PartAllPods)
	if partial { // who holds the nodes is known only with the pods of all namespaces
		read.Nodes = nil
	}
	out := Build(read, inventory.Build(read).Jobs, read.Leader(), read.Now)
	out.Tell(out.Outlook(read, past, read.Now), read.Now)
	out.Partial, out.Unread = partial, read.Unread
	return out, nil
}
