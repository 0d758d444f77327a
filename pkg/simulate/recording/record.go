package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/clock"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// recorded are the resources in the order in which they are listed: pods refer to nodes.
var recorded = []schema.GroupVersionResource{
	{Version: "v1", Resource: "nodes"}, gangsv1.SchemeGroupVersion.WithResource("podgroups"), {Version: "v1", Resource: "pods"},
}

// Recorder writes down what happens.
type Recorder struct {
	Client dynamic.Interface
	Clock  clock.PassiveClock
	// Runs are for how long jobs have run, from a ledger; an empty list is not written.
	Runs []ledger.Run
	// Began is called once all objects are listed, with their number: what follows is what happens.
	Began func(objects int)

	mu      sync.Mutex
	encoder *json.Encoder
	last    map[types.UID]string // of each object, what was written
	err     error
}

// Record writes until ctx ends, which is no error. It ends by itself when the API server can no longer deliver all events, as after a long time
// without a connection: then the recording would have a gap.
func (r *Recorder) Record(ctx context.Context, to io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.encoder, r.last = json.NewEncoder(to), map[types.UID]string{}
	revisions := map[schema.GroupVersionResource]string{}
	for _, resource := range recorded {
		list, err := r.Client.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // there are no gangs in this cluster
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		revisions[resource] = list.GetResourceVersion()
		for i := range list.Items {
			r.writeEvent(watch.Added, &list.Items[i])
		}
	}
	r.writeRuns()
	r.writeEvent(watch.Bookmark, &unstructured.Unstructured{})
	if r.Began != nil {
		r.Began(len(r.last))
	}
	return errors.Join(r.watchChanges(ctx, stop, revisions), r.err)
}

// watchChanges writes what changes after some revisions.
func (r *Recorder) watchChanges(ctx context.Context, stop func(), revisions map[schema.GroupVersionResource]string) error {
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	for resource, revision := range maps.All(revisions) {
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, revision, watches{r.Client.Resource(resource)})
		if err != nil {
			return fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
		watchers.Go(func() {
			defer stop()
			for event := range watcher.ResultChan() {
				r.writeEvent(event.Type, event.Object)
			}
			if ctx.Err() == nil {
				r.addError(fmt.Errorf("watching %s: the watch ended, so what followed is not in the recording", resource.Resource))
			}
		})
	}
	<-ctx.Done()
	return nil
}

// watches is the client interface of the retrying watcher.
type watches struct{ dynamic.ResourceInterface }

// WatchWithContext implements cache.WatcherWithContext.
func (w watches) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w.Watch(ctx, options)
}

// writeEvent writes an event, unless it changes nothing that affects a scheduler.
func (r *Recorder) writeEvent(kind watch.EventType, object runtime.Object) {
	seen := r.Clock.Now()
	content, ok := object.(*unstructured.Unstructured)
	if !ok {
		r.addError(fmt.Errorf("watching: %w", apierrors.FromObject(object)))
		return
	}
	trimObject(content)
	revision := content.GetResourceVersion()
	content.SetResourceVersion("") // it changes with every heartbeat
	same, err := json.Marshal(content)
	content.SetResourceVersion(revision)
	r.mu.Lock()
	defer r.mu.Unlock()
	if uid := content.GetUID(); uid != "" {
		if err == nil && kind == watch.Modified && r.last[uid] == string(same) {
			return
		}
		r.last[uid] = string(same)
		if kind == watch.Deleted {
			delete(r.last, uid)
		}
	}
	r.err = errors.Join(r.err, err, r.encoder.Encode(struct {
		At     time.Time       `json:"at"`
		Type   watch.EventType `json:"type"`
		Object map[string]any  `json:"object"`
	}{seen, kind, content.Object}))
}

// kindOfRuns is the kind of a ledger's data in a recording.
const kindOfRuns = "RunList"

// writeRuns writes how long jobs have run, without their users.
func (r *Recorder) writeRuns() {
	if len(r.Runs) == 0 {
		return
	}
	runs := slices.Clone(r.Runs)
	for i := range runs {
		runs[i].User = ""
	}
	r.err = errors.Join(r.err, r.encoder.Encode(map[string]any{
		"at": r.Clock.Now(), "type": watch.Added, "object": map[string]any{"kind": kindOfRuns, "items": runs},
	}))
}

func (r *Recorder) addError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}
