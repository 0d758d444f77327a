// Package follow keeps the book of reservations for the plugins of a scheduler, and reports released nodes.
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
	// clockCheckInterval is how often the clock is checked while a window is active: it may be adjusted.
	clockCheckInterval = time.Minute
	// gatherInterval is how long changes are collected before released windows are reported: there may be thousands.
	gatherInterval = 100 * time.Millisecond
)

// Reservations are the cluster's GPUReservations, in memory. Queries never block on I/O. nil has none.
type Reservations struct {
	now func() time.Time

	once sync.Once
	book atomic.Pointer[reservation.Book]
	// store is the informer's store, nil if none runs. synced reports that the book has all of it.
	store  cache.Store
	synced cache.InformerSynced

	// outdated says that the book lacks changes of the store.
	outdated atomic.Bool

	mu sync.Mutex
	// seen is the time up to which ended windows have been recorded. ended are those still to be reported.
	seen     time.Time
	ended    []reservation.Window
	released func([]reservation.Window, time.Time)

	waking sync.Mutex
	timer  *time.Timer
	wakes  time.Time
}

// New returns reservations with a clock, time.Now if it is nil. They are empty until they are watched.
func New(now func() time.Time) *Reservations {
	if now == nil {
		now = time.Now
	}
	return &Reservations{now: now}
}

// StartWatching keeps the book in sync with the cluster. Only the first call has an effect: all profiles of a process share the informers. A handle without
// an API server has no reservations, and neither has nil.
func (r *Reservations) StartWatching(handle fwk.Handle) (err error) {
	if r == nil || handle.KubeConfig() == nil {
		return nil
	}
	r.once.Do(func() {
		api, failed := dynamic.NewForConfig(handle.KubeConfig())
		if failed != nil {
			err = fmt.Errorf("building the client of GPUReservations: %w", failed)
			return
		}
		err = r.addHandlers(handle.SharedInformerFactory(), api)
	})
	return err
}

func (r *Reservations) addHandlers(factory informers.SharedInformerFactory, api dynamic.Interface) error {
	informer, err := informerOf(factory, api)
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.markChanged() }, UpdateFunc: func(any, any) { r.markChanged() }, DeleteFunc: func(any) { r.markChanged() },
	})
	if err != nil {
		return fmt.Errorf("following GPUReservations: %w", err)
	}
	r.store, r.synced = informer.GetStore(), registration.HasSynced
	return nil
}

// ClosedFor returns the windows that keep a pod placed now off nodes, nil for none.
func (r *Reservations) ClosedFor(pod *corev1.Pod) *reservation.ClosedWindows {
	book := r.currentBook()
	if book == nil {
		return nil
	}
	return book.ClosedFor(pod, r.now())
}

// HasAny reports whether there are GPUReservations.
func (r *Reservations) HasAny() bool { return r.currentBook() != nil }

// currentBook returns the book. The informer has all reservations a moment before the book: no pod slips through in between.
func (r *Reservations) currentBook() *reservation.Book {
	switch {
	case r == nil || r.store == nil:
		return nil
	case !r.synced():
		return bookOf(r.store)
	case r.outdated.Load():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refreshBook()
	}
	return r.book.Load()
}

// OnRelease sets the function to call with windows that have ended, or were changed or deleted, and the current time. There is one such function.
func (r *Reservations) OnRelease(released func([]reservation.Window, time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = released
}

// markChanged records that the store has changed. The book is rebuilt with the next query, so that many changes cause one rebuild.
func (r *Reservations) markChanged() {
	r.outdated.Store(true)
	r.wakeIn(gatherInterval)
}

// wakeIn schedules notifyReleased after a delay, unless it is due earlier.
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
		r.notifyReleased()
	})
}

// refreshBook updates the book and records the windows that have ended by now. The caller holds r.mu.
func (r *Reservations) refreshBook() {
	now, before, after := r.now(), r.book.Load(), r.book.Load()
	if r.outdated.Swap(false) {
		after = bookOf(r.store)
		r.book.Store(after)
	}
	r.ended = append(r.ended, reservation.ReleasedWindows(before, after, r.seen, now)...)
	r.seen = now
}

// notifyReleased reports the windows that have ended, or were changed or deleted. Only a timer calls it: the receiver locks a queue, which the callers of the
// book hold.
func (r *Reservations) notifyReleased() {
	r.mu.Lock()
	r.refreshBook()
	ended, released := r.ended, r.released
	r.ended = nil
	r.mu.Unlock()
	now := r.now()
	if !r.book.Load().NextEnd(now).IsZero() {
		r.wakeIn(min(r.book.Load().NextEnd(now).Sub(now), clockCheckInterval))
	}
	if released != nil && len(ended) > 0 {
		released(ended, now)
	}
}

func bookOf(store cache.Store) *reservation.Book {
	var windows []reservation.Window
	for _, object := range store.List() {
		if kept, ok := object.(*keptReservation); ok {
			windows = append(windows, kept.window)
		}
	}
	return reservation.NewBook(windows)
}

// keptReservation is the stored part of a GPUReservation.
type keptReservation struct {
	metav1.ObjectMeta

	window reservation.Window
}

// keyOfReservations is the type that identifies our informer in informers.SharedInformerFactory.
type keyOfReservations struct{ unstructured.Unstructured }

// informerOf returns the informer of GPUReservations. It belongs to the scheduler's factory, so that the scheduler waits for its sync before the
// first cycle.
func informerOf(factory informers.SharedInformerFactory, api dynamic.Interface) (cache.SharedIndexInformer, error) {
	informer := factory.InformerFor(&keyOfReservations{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		source := &optional.Kind{Client: api, Resource: gpuReservations, Consequence: "no node is kept for anybody"}
		return cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if err := informer.SetTransform(transformReservation); err != nil {
		return nil, fmt.Errorf("following GPUReservations: %w", err)
	}
	return informer, nil
}

// SeedInformer fills the informer's store for a scheduler whose informers do not run, as in a simulation.
func SeedInformer(factory informers.SharedInformerFactory, known ...*names.GPUReservation) error {
	informer, err := informerOf(factory, nil)
	if err != nil {
		return err
	}
	for _, one := range known {
		if err := informer.GetStore().Add(&keptReservation{ObjectMeta: metav1.ObjectMeta{Name: one.Name}, window: reservation.WindowOf(one)}); err != nil {
			return fmt.Errorf("adding GPUReservation %s: %w", one.Name, err)
		}
	}
	return nil
}

// transformReservation converts a GPUReservation. It logs and ignores an unreadable one, as by a modified CRD.
func transformReservation(object any) (any, error) {
	raw, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	var read names.GPUReservation
	out := &keptReservation{ObjectMeta: metav1.ObjectMeta{Name: raw.GetName(), UID: raw.GetUID(), ResourceVersion: raw.GetResourceVersion(), Generation: raw.GetGeneration()}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &read); err != nil {
		klog.Background().Error(err, "A GPUReservation cannot be read, and keeps nothing", "gpuReservation", klog.KObj(raw))
		return out, nil
	}
	out.window = reservation.WindowOf(&read)
	return out, nil
}
