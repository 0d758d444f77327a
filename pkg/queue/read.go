package queue

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// Reader gathers what a queue is built from, in a number of requests that does not grow with the cluster.
type Reader struct{ client kubernetes.Interface }

// NewReader returns a Reader that reads with client's identity.
func NewReader(client kubernetes.Interface) *Reader { return &Reader{client: client} }

// fromCache lets the API server answer from memory: a listing may be some milliseconds old.
const fromCache = "0"

// living are the pods that wait or hold a place.
var living = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
).String()

// Read returns the lines of all pools. A user who may not read the pods of all namespaces gets those of one, and
// [Queue].Partial says so; without the right to list nodes there are no estimates.
func (r *Reader) Read(ctx context.Context, namespace string, now time.Time) (Queue, error) {
	var objects Objects
	partial := false
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		scope := metav1.NamespaceAll
		if objects, err = r.work(inner, scope); apierrors.IsForbidden(err) {
			partial = true
			objects, err = r.work(inner, namespace)
		}
		return err
	})
	var nodes []corev1.Node
	group.Go(func() error {
		list, err := r.client.CoreV1().Nodes().List(inner, metav1.ListOptions{ResourceVersion: fromCache})
		switch {
		case apierrors.IsForbidden(err):
			return nil
		case err != nil:
			return fmt.Errorf("listing nodes: %w", err)
		}
		nodes = list.Items
		return nil
	})
	var leader *inventory.Leader
	group.Go(func() (err error) {
		leader, err = ReadLeader(inner, r.client, now)
		return err
	})
	if err := group.Wait(); err != nil {
		return Queue{}, err
	}
	objects.Leader = leader
	if !partial { // who holds the nodes is known only with the pods of all namespaces
		objects.Nodes = nodes
	}
	out := Build(objects, now)
	out.Partial = partial
	return out, nil
}

// work reads the pods and jobs of a namespace, "" for all.
func (r *Reader) work(ctx context.Context, namespace string) (Objects, error) {
	var out Objects
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		list, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: fromCache, FieldSelector: living})
		if err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		out.Pods = list.Items
		return nil
	})
	group.Go(func() error {
		list, err := r.client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{ResourceVersion: fromCache, LabelSelector: names.LabelJob})
		if err != nil {
			return fmt.Errorf("listing jobs: %w", err)
		}
		out.Jobs = list.Items
		return nil
	})
	group.Go(func() (err error) {
		out.Refused, err = inventory.NewReader(r.client).Jobs(ctx, inventory.JobQuery{Namespace: namespace})
		return err
	})
	return out, group.Wait()
}

// ReadLeader reads who leads the scheduler, nil for a user who may not.
func ReadLeader(ctx context.Context, client kubernetes.Interface, now time.Time) (*inventory.Leader, error) {
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, names.SchedulerName, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		return &inventory.Leader{State: inventory.NeverLed}, nil
	case err != nil:
		return nil, fmt.Errorf("reading the scheduler's lease: %w", err)
	}
	leader := inventory.LeaderOf(lease, inventory.ServerTime(ctx, client, now))
	return &leader, nil
}
