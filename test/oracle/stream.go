package oracle

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// stream is one of the two that are recorded.
type stream struct {
	name  string
	is    func(*Event) bool
	list  func(context.Context) (runtime.Object, error)
	watch cache.WatchFuncWithContext
}

// streams are the nodes and the pods, in this order: pods refer to nodes.
func streams(client kubernetes.Interface) []stream {
	nodes, pods := client.CoreV1().Nodes(), client.CoreV1().Pods(metav1.NamespaceAll)
	return []stream{
		{
			name:  "node",
			is:    func(e *Event) bool { return e.Node != nil },
			list:  func(ctx context.Context) (runtime.Object, error) { return nodes.List(ctx, metav1.ListOptions{}) },
			watch: nodes.Watch,
		},
		{
			name:  "pod",
			is:    func(e *Event) bool { return e.Pod != nil },
			list:  func(ctx context.Context) (runtime.Object, error) { return pods.List(ctx, metav1.ListOptions{}) },
			watch: pods.Watch,
		},
	}
}

// objects lists what exists, and the revision at which it does.
func (s stream) objects(ctx context.Context) ([]metav1.Object, int64, error) {
	list, err := s.list(ctx)
	if err != nil {
		return nil, 0, err
	}
	at, err := meta.ListAccessor(list)
	if err != nil {
		return nil, 0, err
	}
	revision, err := strconv.ParseInt(at.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the list's revision: %w", err)
	}
	var objects []metav1.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		objects = append(objects, object)
		return err
	})
	return objects, revision, err
}

func revisionOf(object metav1.Object) (int64, error) {
	return strconv.ParseInt(object.GetResourceVersion(), 10, 64)
}

// follow records what exists as of one revision, and starts to record all changes after that.
func (r *Recorder) follow(ctx context.Context, s stream) error {
	objects, revision, err := s.objects(ctx)
	if err != nil {
		return err
	}
	for _, object := range objects {
		item, ok := object.(runtime.Object)
		if !ok {
			return fmt.Errorf("%T is no API object", object)
		}
		r.record(watch.Added, item, revision)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, strconv.FormatInt(revision, 10), watchOnly{s.watch})
	if err != nil {
		return err
	}
	r.copies.Go(func() { r.copy(ctx, watcher) })
	return nil
}

// watchOnly is the part of a client that the retrying watcher asks for.
type watchOnly struct{ watch cache.WatchFuncWithContext }

func (w watchOnly) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w.watch(ctx, options)
}

// copy records the events of a watcher until it ends, which it does by itself only when it cannot go on.
func (r *Recorder) copy(ctx context.Context, watcher watch.Interface) {
	for event := range watcher.ResultChan() {
		object, err := meta.Accessor(event.Object)
		if err != nil {
			r.record(event.Type, event.Object, 0) // a status that says what went wrong
			continue
		}
		revision, err := revisionOf(object)
		if err != nil {
			r.fail(fmt.Errorf("reading the revision of %s: %w", object.GetName(), err))
			continue
		}
		r.record(event.Type, event.Object, revision)
	}
	if ctx.Err() == nil {
		r.fail(errors.New("the watch ended"))
	}
}
