package snapshot

import (
	"context"
	"errors"
	"math/big"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Point is a position in the history of the cluster: a revision of the API server, and a time at which all of it up to there was known.
type Point struct {
	Revision string
	Time     time.Time
}

// Change is a change of an object.
type Change struct {
	Object metav1.Object
	// Gone says that it was deleted, with Object as its last state.
	Gone bool
	// Since and At bound the time of the change. They are equal if it was seen at once.
	Since, At time.Time
}

// HistoryHandler receives the history of one kind of objects, one call at a time. An error of a method ends the history.
type HistoryHandler interface {
	// HandleList receives all objects that exist at a point, if earlier changes are not available: at the beginning, and when too much was missed.
	// Everything was known up to since, which is zero at the very beginning.
	HandleList(objects []metav1.Object, since time.Time, at Point) error
	// HandleChanges receives all changes since the last call, up to a point.
	HandleChanges(changes []Change, at Point) error
}

// ObjectReducer is a [HistoryHandler] that needs only a part of each object. Listed objects are replaced by its result, because all of them are in
// memory at once.
type ObjectReducer interface {
	ReduceObject(object metav1.Object) metav1.Object
}

// listPageSize is how many objects one request lists, and maxChanges how many changes one call reports at most.
const (
	listPageSize = 500
	maxChanges   = 500
	// retryPause is the delay after a failed request.
	retryPause = time.Second
	// heartbeatInterval is how often a waiting process checks the clock. If it has not done so for stallThreshold, the process was stopped, or
	// starved, and events that it receives until recoveryTime is over may have been delayed by that.
	heartbeatInterval = 500 * time.Millisecond
	stallThreshold    = 3 * heartbeatInterval
	recoveryTime      = 2 * time.Second
)

// WatchHistory reports all changes of the objects of a query to a handler, from a point on, until ctx ends, whose error it returns: no change is left
// out and none is reported twice. The API server keeps its history for some minutes, so a shorter interruption misses nothing. Failed requests
// are repeated forever, and passed to report.
func WatchHistory(ctx context.Context, client kubernetes.Interface, want Query, from Point, to HistoryHandler, report func(error)) error {
	if want.source == nil {
		return phrase.Errorf("%s cannot be followed", want.part.Says())
	}
	h := &historyWatch{source: want.source(client), at: from, to: to, clock: clock.RealClock{}}
	for {
		err := h.watchOnce(ctx)
		var refused *refusedError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return refused.err
		case err != nil && isExpired(err) && h.at.Revision != "":
			h.at.Revision = "" // list it again
			continue
		case err != nil:
			report(phrase.Errorf("following %s: %w", want.part.Says(), err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.clock.After(retryPause):
		}
	}
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// refusedError is an error of the handler.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

type historyWatch struct {
	source cache.ListerWatcherWithContext
	at     Point
	to     HistoryHandler
	clock  clock.WithTicker
	// past is the revision up to which changes happened before the watch began, and seen is when it was read.
	past *big.Int
	seen time.Time
	// lastHeartbeat is when the process last ran. After a stall, stallBegan is its beginning and stallEnded its end.
	lastHeartbeat, stallBegan, stallEnded time.Time
}

// watchOnce lists if necessary, and watches until the watch ends.
func (h *historyWatch) watchOnce(ctx context.Context) error {
	if h.at.Revision == "" {
		if err := h.listAll(ctx); err != nil {
			return err
		}
	}
	if err := h.readRevision(ctx); err != nil {
		return err
	}
	watcher, err := h.source.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: h.at.Revision, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	ticker := h.clock.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	h.lastHeartbeat = h.clock.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
			h.recordHeartbeat()
		case event, ok := <-watcher.ResultChan():
			if !ok {
				return nil // servers end watches from time to time
			}
			h.recordHeartbeat()
			if err := h.handleEvent(event, watcher.ResultChan()); err != nil {
				return err
			}
		}
	}
}

// recordHeartbeat records that the process runs, and detects a stall.
func (h *historyWatch) recordHeartbeat() {
	now := h.clock.Now()
	if now.Sub(h.lastHeartbeat) > stallThreshold {
		h.stallBegan, h.stallEnded = h.lastHeartbeat, now
	}
	h.lastHeartbeat = now
}

// earliestTime returns the earliest time at which an event received now may have happened.
func (h *historyWatch) earliestTime(now time.Time) time.Time {
	if now.Sub(h.stallEnded) < recoveryTime {
		return h.stallBegan
	}
	return now
}

// listAll reports all existing objects.
func (h *historyWatch) listAll(ctx context.Context) error {
	var objects []metav1.Object
	slimmer, slims := h.to.(ObjectReducer)
	at := Point{}
	options := metav1.ListOptions{Limit: listPageSize}
	for {
		page, err := h.source.ListWithContext(ctx, options)
		if err != nil {
			return err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return phrase.Errorf("reading a list: %w", err)
		}
		if at.Revision == "" {
			// Changes up to that revision have happened by now.
			at = Point{Revision: about.GetResourceVersion(), Time: h.clock.Now()}
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				object.SetManagedFields(nil) // a third of many an object, and there may be very many
				if slims {
					object = slimmer.ReduceObject(object)
				}
				objects = append(objects, object)
			}
			return err
		})
		if err != nil {
			return phrase.Errorf("reading a list: %w", err)
		}
		if options.Continue = about.GetContinue(); options.Continue == "" {
			break
		}
	}
	if err := h.to.HandleList(objects, h.at.Time, at); err != nil {
		return &refusedError{err}
	}
	h.at = at
	return nil
}

// readRevision reads the current revision of the cluster. Changes that the watch reports up to there happened before.
func (h *historyWatch) readRevision(ctx context.Context) error {
	page, err := h.source.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	about, err := meta.ListAccessor(page)
	if err != nil {
		return phrase.Errorf("reading a list: %w", err)
	}
	h.seen = h.clock.Now()
	h.past, err = revisionNumber(about.GetResourceVersion())
	return err
}

// revisionNumber returns a revision as a number: Kubernetes guarantees that revisions are ordered numbers.
func revisionNumber(revision string) (*big.Int, error) {
	n, ok := new(big.Int).SetString(revision, 10)
	if !ok {
		return nil, phrase.Errorf("reading the revision %q: it is no number", revision)
	}
	return n, nil
}

// handleEvent reports an event, together with the events that are already waiting.
func (h *historyWatch) handleEvent(event watch.Event, waiting <-chan watch.Event) error {
	var changes []Change
	at := h.at
	for {
		if event.Type == watch.Error {
			return errors.Join(h.passChanges(changes, at), apierrors.FromObject(event.Object))
		}
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return phrase.Errorf("reading an event: %w", err)
		}
		number, err := revisionNumber(object.GetResourceVersion())
		if err != nil {
			return err
		}
		change := Change{Object: object, Gone: event.Type == watch.Deleted, Since: h.at.Time, At: h.seen}
		if number.Cmp(h.past) > 0 {
			change.At = h.clock.Now()
			change.Since = h.earliestTime(change.At)
		}
		at = Point{Revision: object.GetResourceVersion(), Time: laterOf(at.Time, change.Since)}
		if event.Type != watch.Bookmark {
			changes = append(changes, change)
		} else if number.Cmp(h.past) >= 0 {
			at.Time = laterOf(at.Time, h.seen)
		}
		if len(changes) == maxChanges {
			return h.passChanges(changes, at)
		}
		more := false
		select {
		case event, more = <-waiting:
		default:
		}
		if !more {
			return h.passChanges(changes, at)
		}
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (h *historyWatch) passChanges(changes []Change, at Point) error {
	if at == h.at {
		return nil
	}
	if err := h.to.HandleChanges(changes, at); err != nil {
		return &refusedError{err}
	}
	h.at = at
	return nil
}
