package process

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
)

// bindings sees when pods are bound.
type bindings struct {
	watch watch.Interface
	// seen are the pods that are bound, and before how many of them were when the watch began.
	seen   map[types.UID]bool
	before int
}

// watchBindings watches the pods that are bound from now on.
func (l *Lab) watchBindings(ctx context.Context) (*bindings, error) {
	pods := l.client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", "").String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods that are bound already: %w", err)
	}
	before := map[types.UID]bool{}
	for i := range list.Items {
		before[list.Items[i].UID] = true
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, podWatcher{pods.Watch})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return &bindings{watch: watcher, seen: before, before: len(before)}, nil
}

// podWatcher makes a function what the retrying watcher takes.
type podWatcher struct {
	start func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (w podWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w.start(ctx, o)
}

// next waits for the next pod that is bound, and says when that was seen. It waits no longer than the scheduler runs.
func (b *bindings) next(ctx context.Context, ended <-chan struct{}) (*corev1.Pod, time.Time, error) {
	for {
		select {
		case <-ended:
			return nil, time.Time{}, fmt.Errorf("the scheduler ended, with %d pods bound", b.bound())
		case <-ctx.Done():
			return nil, time.Time{}, fmt.Errorf("waiting for pods to be bound, of which %d are: %w", b.bound(), ctx.Err())
		case event, ok := <-b.watch.ResultChan():
			if !ok {
				return nil, time.Time{}, fmt.Errorf("the watch of pods ended, of which %d are bound", b.bound())
			}
			pod, ok := event.Object.(*corev1.Pod)
			if ok && event.Type != watch.Deleted && pod.Spec.NodeName != "" && !b.seen[pod.UID] {
				b.seen[pod.UID] = true
				return pod, time.Now(), nil
			}
		}
	}
}

func (b *bindings) bound() int { return len(b.seen) - b.before }

func (b *bindings) stop() { b.watch.Stop() }
