// Package recorder writes the ledger: it follows pods, jobs and nodes, and puts what follows from them into a store, each
// change together with how far the cluster was followed. So it may be killed at any moment, and goes on where it was.
package recorder

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// FollowPods is what the mark in the store is called of how far pods are followed, which hold GPUs; and so on.
const (
	FollowPods        = "pods"
	followJobs        = "jobs"
	followDeployments = "deployments"
)

// Recorder follows one cluster.
type Recorder struct {
	Client kubernetes.Interface
	Store  *store.Store
	Log    *slog.Logger
	// Outputs, if not nil, are told of pods that are about to end, have ended, and are gone.
	Outputs *Outputs

	nodes nodes
}

// Run records until ctx ends, or the store cannot be written.
func (r *Recorder) Run(ctx context.Context) error {
	r.nodes.ready = make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	jobs := snapshot.Scope{Labels: names.LabelJob + "," + names.LabelJobType}
	bound := snapshot.Scope{Fields: fields.OneTermNotEqualSelector("spec.nodeName", "").String()}
	group.Go(func() error { return r.follow(ctx, snapshot.Nodes(snapshot.Scope{}), "", &r.nodes) })
	group.Go(func() error {
		return r.follow(ctx, snapshot.Jobs(jobs), followJobs, &jobBook{recorder: r, of: followJobs})
	})
	group.Go(func() error {
		return r.follow(ctx, snapshot.Deployments(jobs), followDeployments, &jobBook{recorder: r, of: followDeployments})
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.nodes.ready: // pods tell no type of their GPUs
		}
		return r.follow(ctx, snapshot.Pods(bound), FollowPods, &podBook{recorder: r})
	})
	return group.Wait()
}

// follow tells a book the history of something, from where the store was left; "" is kept nowhere.
func (r *Recorder) follow(ctx context.Context, want snapshot.Want, of string, book snapshot.Chronicle) error {
	var from snapshot.Point
	if of != "" {
		err := r.Store.Update(func(tx *store.Tx) error {
			mark, _, err := tx.Mark(of)
			from = snapshot.Point{Revision: mark.Revision, Time: mark.Time}
			return err
		})
		if err != nil {
			return fmt.Errorf("reading how far %s were followed: %w", of, err)
		}
	}
	return snapshot.History(ctx, r.Client, want, from, book, func(err error) {
		r.Log.WarnContext(ctx, "The cluster cannot be followed for now", "error", err)
	})
}

func markOf(at snapshot.Point) store.Mark {
	return store.Mark{Revision: at.Revision, Time: at.Time.UTC()}
}

// rememberGone is how long a node is remembered that is gone: its pods may be heard of later. Names of machines of clouds do not come again.
const rememberGone = time.Hour

// nodes remembers of nodes what pods do not tell. Those that are gone are remembered for a while, too.
type nodes struct {
	mu    sync.Mutex
	known map[string]*corev1.Node
	// gone is since when those are gone that are.
	gone  map[string]time.Time
	ready chan struct{}
	once  sync.Once
}

func (n *nodes) get(name string) *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[name]
}

// Listed implements snapshot.Chronicle.
func (n *nodes) Listed(objects []metav1.Object, _ time.Time, _ snapshot.Point) error {
	n.mu.Lock()
	n.known, n.gone = map[string]*corev1.Node{}, map[string]time.Time{}
	n.mu.Unlock()
	for _, object := range objects {
		n.put(object)
	}
	n.once.Do(func() { close(n.ready) })
	return nil
}

// Changed implements snapshot.Chronicle.
func (n *nodes) Changed(changes []snapshot.Change, _ snapshot.Point) error {
	for i := range changes {
		n.put(changes[i].Object)
		n.note(&changes[i])
	}
	return nil
}

// note notes whether a node is gone, and forgets those that have been for long.
func (n *nodes) note(change *snapshot.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !change.Gone {
		delete(n.gone, change.Object.GetName())
		return
	}
	n.gone[change.Object.GetName()] = change.At
	for name, since := range n.gone {
		if change.At.Sub(since) > rememberGone {
			delete(n.gone, name)
			delete(n.known, name)
		}
	}
}

func (n *nodes) put(object metav1.Object) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[node.Name] = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, Labels: node.Labels,
			Annotations: map[string]string{names.AnnotationInventory: node.Annotations[names.AnnotationInventory]},
		},
		Status: corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}
}
