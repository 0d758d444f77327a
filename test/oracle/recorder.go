package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// catchUpPoll is how often Stop looks whether the watches have arrived at the present.
const catchUpPoll = 20 * time.Millisecond

// Recorder writes down the history of all pods and nodes while it happens.
type Recorder struct {
	client kubernetes.Interface
	cancel context.CancelFunc
	copies sync.WaitGroup

	mu     sync.Mutex
	events History
	last   map[types.UID]int64 // the last revision of each object
	alive  map[types.UID]int64 // the first revision of each object that is not deleted
	err    error               // why the history has a gap
}

// Watch starts to record. What exists already counts as added. End it with [Recorder.Stop].
//
// A watch that breaks is resumed at the last revision seen. When the API server no longer has what followed, the
// history has a gap, and Stop fails.
func Watch(ctx context.Context, client kubernetes.Interface) (*Recorder, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &Recorder{client: client, cancel: cancel, last: map[types.UID]int64{}, alive: map[types.UID]int64{}}
	for _, s := range streams(client) {
		if err := r.follow(ctx, s); err != nil {
			cancel()
			r.copies.Wait()
			return nil, fmt.Errorf("recording %s: %w", s.name, err)
		}
	}
	return r, nil
}

// History returns what has happened so far. The latest events of pods and nodes can still lack some in between.
func (r *Recorder) History() History {
	r.mu.Lock()
	events := slices.Clone(r.events)
	r.mu.Unlock()
	// Nodes first, which is how they are listed: pods refer to them.
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Revision, b.Revision) })
	return events
}

// Stop waits until all that had happened when it was called is recorded, ends the recording and returns it. It fails
// if a revision is missing. ctx bounds the wait.
func (r *Recorder) Stop(ctx context.Context) (History, error) {
	err := r.catchUp(ctx)
	r.cancel()
	r.copies.Wait()
	if err := errors.Join(err, r.err); err != nil {
		return nil, fmt.Errorf("completing the history: %w", err)
	}
	return r.History(), nil
}

// catchUp compares the recording with lists that are as fresh as the store.
func (r *Recorder) catchUp(ctx context.Context) error {
	for _, s := range streams(r.client) {
		objects, revision, err := s.objects(ctx)
		if err != nil {
			return err
		}
		for {
			missing := r.missing(s, objects, revision)
			if missing == "" {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s of revision %d is missing: %w", missing, revision, ctx.Err())
			case <-time.After(catchUpPoll):
			}
		}
	}
	return nil
}

// missing names an object of which the recording lacks a change that the list shows.
func (r *Recorder) missing(s stream, objects []metav1.Object, revision int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	listed := map[types.UID]bool{}
	for _, object := range objects {
		listed[object.GetUID()] = true
		if at, err := revisionOf(object); err != nil || r.last[object.GetUID()] < at {
			return fmt.Sprintf("a change of %s %s", s.name, object.GetName())
		}
	}
	for i := range r.events {
		object := r.events[i].object()
		first, alive := r.alive[object.GetUID()]
		if alive && s.is(&r.events[i]) && !listed[object.GetUID()] && first <= revision {
			return fmt.Sprintf("the end of %s %s", s.name, object.GetName())
		}
	}
	return ""
}

func (e *Event) object() metav1.Object {
	if e.Pod != nil {
		return e.Pod
	}
	return e.Node
}

// record writes down one event.
func (r *Recorder) record(kind watch.EventType, object runtime.Object, revision int64) {
	event := Event{Revision: revision, Seen: time.Now(), Type: kind}
	switch object := object.(type) {
	case *corev1.Pod:
		object.ManagedFields = nil
		event.Pod = object
	case *corev1.Node:
		object.ManagedFields = nil
		event.Node = object
	default:
		r.fail(fmt.Errorf("an event of %T: %w", object, apierrors.FromObject(object)))
		return
	}
	uid := event.object().GetUID()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
	r.last[uid] = revision
	if _, known := r.alive[uid]; !known {
		r.alive[uid] = revision
	}
	if kind == watch.Deleted {
		delete(r.alive, uid)
	}
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}
