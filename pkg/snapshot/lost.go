package snapshot

import (
	"context"
	"errors"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// LostError says that a part of the cluster cannot be watched, so that its known state becomes stale.
type LostError struct {
	Part Part
	// Namespace is the watched namespace, "" for all of them.
	Namespace string
	// Verb is the request that failed, as rights name it.
	Verb string
	// Refused says that it was refused repeatedly, for lack of a right or of credentials, which is permanent.
	Refused bool
	cause   error
}

func (e *LostError) Error() string { return e.Message().String() }
func (e *LostError) Unwrap() error { return e.cause }

// Message implements [phrase.LocalizedError].
func (e *LostError) Message() phrase.Text {
	switch {
	case apierrors.IsUnauthorized(e.cause):
		return phrase.Textf("the cluster does not accept your credentials any more: log in again")
	case apierrors.IsForbidden(e.cause) && e.Namespace != "":
		return phrase.Textf("you have no right to %s %s in namespace %s", e.Verb, e.Part, e.Namespace)
	case apierrors.IsForbidden(e.cause):
		return phrase.Textf("you have no right to %s %s", e.Verb, e.Part)
	}
	return phrase.Textf("watching %s: %w", e.Part, e.cause)
}

// IsRefused reports whether an error says that a part is unavailable for as long as the rights are unchanged.
func IsRefused(err error) bool {
	var lost *LostError
	return errors.As(err, &lost) && lost.Refused
}

// refusals is how many attempts in a row have to be refused for a permanent refusal: an API server that has just started knows no rights yet,
// and credential programs replace credentials that are not accepted.
const refusals = 3

// watchProgress is the progress of one watch.
type watchProgress struct {
	part      Part
	namespace string
	changed   func()

	mu sync.Mutex
	// isCurrent says that the state is current, and lost why it is not any more.
	isCurrent bool
	lost      *LostError
	// verb and answer are those of the last request, and refused is the number of consecutive refused attempts.
	verb    string
	answer  error
	refused int
}

func (c *watchProgress) currentStatus() (lost *LostError, follows bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost, c.isCurrent
}

// wrapSource returns a source that reports its requests to the progress.
func (c *watchProgress) wrapSource(source *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := source.ListWithContextFunc(ctx, options)
			c.recordRequest("list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := source.WatchFuncWithContext(ctx, options)
			c.recordRequest("watch", err)
			switch {
			case err == nil && ptr.Deref(options.SendInitialEvents, false):
				return c.afterInitial(events), nil
			case err == nil:
				c.recordOpen()
			case utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err):
				c.recordFailure(ctx, err) // the reflector repeats these forever, and only reports other errors to its handler
			}
			return events, err
		},
	}
}

func (c *watchProgress) recordRequest(verb string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verb, c.answer = verb, err
}

// afterInitial forwards events, and detects the end of the initial events that replace a list.
func (c *watchProgress) afterInitial(events watch.Interface) watch.Interface {
	out := make(chan watch.Event)
	passed := watch.NewProxyWatcher(out)
	go func() {
		defer close(out)
		defer events.Stop()
		for {
			select {
			case <-passed.StopChan():
				return
			case event, open := <-events.ResultChan():
				if !open {
					return
				}
				select {
				case <-passed.StopChan():
					return
				case out <- event:
				}
				if endsInitial(event) {
					c.recordOpen()
				}
			}
		}
	}()
	return passed
}

func endsInitial(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// recordOpen records that the watch is open, and has reported the initial state.
func (c *watchProgress) recordOpen() {
	c.mu.Lock()
	c.isCurrent, c.lost, c.refused = true, nil, 0
	c.mu.Unlock()
	c.changed()
}

// recordFailure records why the watch does not continue. The end of a watch, or an expired revision, is normal: the next request shows whether
// anything is wrong.
func (c *watchProgress) recordFailure(ctx context.Context, err error) {
	ended := err == io.EOF || err == io.ErrUnexpectedEOF //nolint:errorlint // inside a request it is a failure of that
	if ended || isExpired(err) || ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	if errors.Is(err, c.answer) {
		err = c.answer // without client-go's own prefix
	}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		c.refused++
	} else {
		c.refused = 0
	}
	c.isCurrent = false
	c.lost = &LostError{Part: c.part, Namespace: c.namespace, Verb: c.verb, Refused: c.refused >= refusals, cause: err}
	c.mu.Unlock()
	c.changed()
}
