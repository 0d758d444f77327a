// Package recorder writes the ledger: it watches pods, jobs and nodes, and stores the resulting changes, each together with the position in the
// cluster's history. So it may be killed at any moment, and resumes where it was.
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

// FollowPods is the store's mark for pods, which hold GPUs. The other marks are for jobs and deployments.
const (
	FollowPods        = "pods"
	followJobs        = "jobs"
	followDeployments = "deployments"
)

// Recorder records one cluster.
type Recorder struct {
	Client kubernetes.Interface
	Store  *store.Store
	Log    *slog.Logger
	// Outputs, if not nil, gets pods that are terminating, have ended, or are deleted.
	Outputs *Outputs

	nodes nodes
}

// Run records until ctx ends, or the store cannot be written.
func (r *Recorder) Run(ctx context.Context) error {
	r.nodes.ready = make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	jobs := snapshot.Scope{Labels: names.LabelJob + "," + names.LabelJobType}
	bound := snapshot.Scope{Fields: fields.OneTermNotEqualSelector("spec.nodeName", "").String()}
	group.Go(func() error { return r.followKind(ctx, snapshot.Nodes(snapshot.Scope{}), "", &r.nodes) })
	group.Go(func() error {
		return r.followKind(ctx, snapshot.Jobs(jobs), followJobs, &jobBook{recorder: r, of: followJobs})
	})
	group.Go(func() error {
		return r.followKind(ctx, snapshot.Deployments(jobs), followDeployments, &jobBook{recorder: r, of: followDeployments})
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.nodes.ready: // pods do not show their GPU type
		}
		return r.followKind(ctx, snapshot.Pods(bound), FollowPods, &podBook{recorder: r})
	})
	return group.Wait()
}

// followKind feeds the history of a resource to a book, from the position in the store; "" is stored nowhere.
func (r *Recorder) followKind(ctx context.Context, want snapshot.Query, of string, book snapshot.HistoryHandler) error {
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
	return snapshot.WatchHistory(ctx, r.Client, want, from, book, func(err error) {
		r.Log.WarnContext(ctx, "The cluster cannot be followed for now", "error", err)
	})
}

func markOf(at snapshot.Point) store.Mark {
	return store.Mark{Revision: at.Revision, Time: at.Time.UTC()}
}

// rememberGone is how long a deleted node is remembered: events of its pods may arrive later. Cloud machine names are not reused.
const rememberGone = time.Hour

// nodes caches what pods do not show about their nodes. Deleted nodes remain for a while.
type nodes struct {
	mu    sync.Mutex
	known map[string]*corev1.Node
	// gone is when nodes were deleted.
	gone  map[string]time.Time
	ready chan struct{}
	once  sync.Once
}

func (n *nodes) getNode(name string) *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[name]
}

// HandleList implements snapshot.Chronicle.
func (n *nodes) HandleList(objects []metav1.Object, _ time.Time, _ snapshot.Point) error {
	n.mu.Lock()
	n.known, n.gone = map[string]*corev1.Node{}, map[string]time.Time{}
	n.mu.Unlock()
	for _, object := range objects {
		n.putNode(object)
	}
	n.once.Do(func() { close(n.ready) })
	return nil
}

// HandleChanges implements snapshot.Chronicle.
func (n *nodes) HandleChanges(changes []snapshot.Change, _ snapshot.Point) error {
	for i := range changes {
		n.putNode(changes[i].Object)
		n.noteGone(&changes[i])
	}
	return nil
}

// noteGone records whether a node is deleted, and removes those deleted long ago.
func (n *nodes) noteGone(change *snapshot.Change) {
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

func (n *nodes) putNode(object metav1.Object) {
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
