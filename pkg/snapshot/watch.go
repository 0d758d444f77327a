package snapshot

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// settleTime is how long a watch collects changes before it reports them: related changes come in bursts.
const settleTime = 100 * time.Millisecond

// Watch reports the result of queries, and then after every burst of changes, until ctx ends, whose error it returns. Calls of told do not
// overlap. It makes no requests beside the watches.
//
// While a part cannot be watched, told gets a [LostError], and with it the known state, nil until everything was read: that part becomes stale,
// the others do not. A watch is retried forever; without an error all of the state is current again. An optional query that is forbidden is no
// loss: it is in [Snapshot.Unread] until it is allowed.
func Watch(ctx context.Context, client kubernetes.Interface, told func(now *Snapshot, lost error), wants ...Query) error {
	dirty := make(chan struct{}, 1)
	mark := func() {
		select {
		case dirty <- struct{}{}:
		default:
		}
	}
	var parts watchedParts
	for _, want := range wants {
		if want.follow == nil {
			return phrase.Errorf("%s cannot be watched", want.part.Says())
		}
		one := want.follow(ctx, client, mark)
		one.optional = want.optional
		parts = append(parts, one)
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), parts.areSynced) {
			mark() // also when there is nothing of anything
		}
	}()
	for first := true; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-dirty:
		}
		if !first {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(settleTime):
			}
		}
		if now, lost := parts.currentSnapshot(); now != nil || lost != nil {
			told(now, lost)
			first = false
		}
	}
}

// watchedParts are the lists of one watch.
type watchedParts []watchedList

func (p watchedParts) areSynced() bool {
	return !slices.ContainsFunc(p, func(one watchedList) bool { return !one.synced() && !one.isMissing() })
}

// currentSnapshot returns the known state, and the loss of a part; neither as long as that is unknown.
func (p watchedParts) currentSnapshot() (*Snapshot, error) {
	lost, current := p.worstLoss()
	if !p.areSynced() || lost == nil && !current {
		return nil, lost
	}
	now := &Snapshot{}
	for _, one := range p {
		if one.isMissing() {
			now.MarkUnread(one.progress.part)
			continue
		}
		one.fill(now)
	}
	return now, lost
}

// worstLoss returns the worst loss, permanent refusals first, and whether everything is current.
func (p watchedParts) worstLoss() (worst error, current bool) {
	current = true
	for _, one := range p {
		if one.isMissing() {
			continue
		}
		lost, follows := one.progress.currentStatus()
		current = current && follows
		if lost != nil && (worst == nil || lost.Refused && !IsRefused(worst)) {
			worst = lost
		}
	}
	return worst, current
}

// watchedList is a list that is kept up to date.
type watchedList struct {
	// optional says that it may be missing for lack of a right.
	optional bool
	synced   cache.InformerSynced
	progress *watchProgress
	// fill copies it into a snapshot. The objects are shared with the watch.
	fill func(*Snapshot)
}

// isMissing reports whether it is missing because the user may not read it.
func (f *watchedList) isMissing() bool {
	lost, _ := f.progress.currentStatus()
	return f.optional && lost != nil && apierrors.IsForbidden(lost.cause)
}

func watchList[T any](ctx context.Context, client kubernetes.Interface, source *cache.ListWatch, field func(*Snapshot) *[]T, c *watchProgress) watchedList {
	object, _ := any(new(T)).(runtime.Object)
	informer := cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(c.wrapSource(source), client), object, cache.SharedIndexInformerOptions{})
	// None of these can fail before it runs.
	_ = informer.SetTransform(withoutManagedFields)
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) { c.recordFailure(ctx, err) })
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.changed() },
		UpdateFunc: func(any, any) { c.changed() },
		DeleteFunc: func(any) { c.changed() },
	})
	go informer.RunWithContext(ctx)
	return watchedList{synced: informer.HasSynced, progress: c, fill: func(s *Snapshot) {
		list := informer.GetStore().List()
		out := make([]T, 0, len(list))
		for _, item := range list {
			if object, ok := item.(*T); ok {
				out = append(out, *object)
			}
		}
		*field(s) = out
	}}
}

func listWatch[L runtime.Object](of api[L], scope Scope) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			scope.applyTo(&options)
			return of.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			scope.applyTo(&options)
			return of.Watch(ctx, options)
		},
	}
}

// withoutManagedFields drops managed fields, which are not used here and are a third of many objects.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
