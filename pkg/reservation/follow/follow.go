// Package follow keeps the book of reservations that the plugins of a scheduler share, and tells when nodes are released.
package follow

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/optional"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

var gpuReservations = names.SchemeGroupVersion.WithResource("gpureservations")

const (
	// lookAtClock is how often the clock is looked at while a window is to end: it may be set.
	lookAtClock = time.Minute
	// gather is how long changes are gathered before anybody is told of what they release: there may be thousands.
	gather = 100 * time.Millisecond
)

// Reservations are those of the cluster, from memory. Nothing that asks them waits for anything. nil has none.
type Reservations struct {
	now func() time.Time

	once sync.Once
	book atomic.Pointer[reservation.Book]
	// store is that of the informer, nil where none runs, and synced says that the book has all of it.
	store  cache.Store
	synced cache.InformerSynced

	// outdated says that the book lacks what the store has.
	outdated atomic.Bool

	mu sync.Mutex
	// seen is until when windows that end have been noted, and ended are those that are yet to be told of.
	seen     time.Time
	ended    []reservation.Window
	released func([]reservation.Window, time.Time)

	waking sync.Mutex
	timer  *time.Timer
	wakes  time.Time
}

// New returns reservations by a clock, time.Now if it is nil. They are none until they are followed.
func New(now func() time.Time) *Reservations {
	if now == nil {
		now = time.Now
	}
	return &Reservations{now: now}
}

// Follow keeps the book in step with the cluster. The first call counts: all profiles of a process have the same informers.
// A handle that knows no API server has no reservations, nor has nil.
func (r *Reservations) Follow(handle fwk.Handle) (err error) {
	if r == nil || handle.KubeConfig() == nil {
		return nil
	}
	r.once.Do(func() {
		api, failed := dynamic.NewForConfig(handle.KubeConfig())
		if failed != nil {
			err = fmt.Errorf("building the client of GPUReservations: %w", failed)
			return
		}
		err = r.follow(handle.SharedInformerFactory(), api)
	})
	return err
}

func (r *Reservations) follow(factory informers.SharedInformerFactory, api dynamic.Interface) error {
	informer, err := informerOf(factory, api)
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.changed() }, UpdateFunc: func(any, any) { r.changed() }, DeleteFunc: func(any) { r.changed() },
	})
	if err != nil {
		return fmt.Errorf("following GPUReservations: %w", err)
	}
	r.store, r.synced = informer.GetStore(), registration.HasSynced
	return nil
}

// Against returns what keeps a pod from nodes that is placed now, nil for nothing.
func (r *Reservations) Against(pod *corev1.Pod) *reservation.Closed {
	book := r.current()
	if book == nil {
		return nil
	}
	return book.Against(pod, r.now())
}

// Any reports whether there are any.
func (r *Reservations) Any() bool { return r.current() != nil }

// current is the book. The informer has all reservations a moment before the book does: no pod slips through then.
func (r *Reservations) current() *reservation.Book {
	switch {
	case r == nil || r.store == nil:
		return nil
	case !r.synced():
		return bookOf(r.store)
	case r.outdated.Load():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.note()
	}
	return r.book.Load()
}

// OnRelease has a function called with windows that have ended, or were changed or deleted, and what time it is. There is one such
// function.
func (r *Reservations) OnRelease(released func([]reservation.Window, time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = released
}

// changed notes that the store has changed. The book is made anew when somebody asks, so that many changes are one.
func (r *Reservations) changed() {
	r.outdated.Store(true)
	r.wakeIn(gather)
}

// wakeIn has tell called after a while, unless it will be sooner.
func (r *Reservations) wakeIn(after time.Duration) {
	r.waking.Lock()
	defer r.waking.Unlock()
	at := time.Now().Add(after)
	if r.timer != nil && !r.wakes.After(at) {
		return
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	r.wakes = at
	r.timer = time.AfterFunc(after, func() {
		r.waking.Lock()
		r.timer = nil
		r.waking.Unlock()
		r.tell()
	})
}

// note takes in what is there now, and what has ended by now. r.mu is held.
func (r *Reservations) note() {
	now, before, after := r.now(), r.book.Load(), r.book.Load()
	if r.outdated.Swap(false) {
		after = bookOf(r.store)
		r.book.Store(after)
	}
	r.ended = append(r.ended, reservation.Released(before, after, r.seen, now)...)
	r.seen = now
}

// tell tells of the windows that have ended, or were changed or deleted. It is called by a timer alone: who is told has a queue
// locked, which those have who ask for the book.
func (r *Reservations) tell() {
	r.mu.Lock()
	r.note()
	ended, released := r.ended, r.released
	r.ended = nil
	r.mu.Unlock()
	now := r.now()
	if !r.book.Load().NextEnd(now).IsZero() {
		r.wakeIn(min(r.book.Load().NextEnd(now).Sub(now), lookAtClock))
	}
	if released != nil && len(ended) > 0 {
		released(ended, now)
	}
}

func bookOf(store cache.Store) *reservation.Book {
	var windows []reservation.Window
	for _, object := range store.List() {
		if kept, ok := object.(*kept); ok {
			windows = append(windows, kept.window)
		}
	}
	return reservation.NewBook(windows)
}

// kept is what is kept of a GPUReservation.
type kept struct {
	metav1.ObjectMeta

	window reservation.Window
}

// keyOfReservations is the type by which informers.SharedInformerFactory knows our informer from all others.
type keyOfReservations struct{ unstructured.Unstructured }

// informerOf follows GPUReservations as one of the scheduler's informers, so that it waits for them before its first cycle.
func informerOf(factory informers.SharedInformerFactory, api dynamic.Interface) (cache.SharedIndexInformer, error) {
	informer := factory.InformerFor(&keyOfReservations{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		source := &optional.Kind{Client: api, Resource: gpuReservations, Without: "no node is kept for anybody"}
		return cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if err := informer.SetTransform(keep); err != nil {
		return nil, fmt.Errorf("following GPUReservations: %w", err)
	}
	return informer, nil
}

// Know tells a scheduler whose informers do not run, as in a simulation, which GPUReservations there are.
func Know(factory informers.SharedInformerFactory, known ...*names.GPUReservation) error {
	informer, err := informerOf(factory, nil)
	if err != nil {
		return err
	}
	for _, one := range known {
		if err := informer.GetStore().Add(&kept{ObjectMeta: metav1.ObjectMeta{Name: one.Name}, window: reservation.Of(one)}); err != nil {
			return fmt.Errorf("adding GPUReservation %s: %w", one.Name, err)
		}
	}
	return nil
}

// keep reads a GPUReservation. One that cannot be read, as by a CRD that others have changed, is left out and told of.
func keep(object any) (any, error) {
	raw, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	var read names.GPUReservation
	out := &kept{ObjectMeta: metav1.ObjectMeta{Name: raw.GetName(), UID: raw.GetUID(), ResourceVersion: raw.GetResourceVersion(), Generation: raw.GetGeneration()}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &read); err != nil {
		klog.Background().Error(err, "A GPUReservation cannot be read, and keeps nothing", "gpuReservation", klog.KObj(raw))
		return out, nil
	}
	out.window = reservation.Of(&read)
	return out, nil
}
