package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// outstanding is how many pods wait at once while the highest rate is sought.
const outstanding = 100

// Load is pods that come, are bound and go at once.
type Load struct {
	// Rate is how many come a second, whether or not those before them are bound. 0 is as many as are bound, with
	// some that wait at any time.
	Rate float64
	// Duration is how long they come.
	Duration time.Duration
}

// Flowed is what a load met.
type Flowed struct {
	Pods int
	// PodsPerSecond is how many were bound.
	PodsPerSecond float64
	// P50, P95, P99 and Max are of the time from the API server's answer that a pod is created to the news that it
	// is bound.
	P50, P95, P99, Max time.Duration
	// Flushed is how many pods were tried again only because they had waited for minutes.
	Flushed int
}

// flow is a load under way.
type flow struct {
	lab     *Lab
	waiting chan struct{} // holds as many as may wait, nil for any number

	mu      sync.Mutex
	created map[types.UID]time.Time
	bound   map[types.UID]time.Time
}

// Flow puts a load on a scheduler.
func (l *Lab) Flow(ctx context.Context, s Scheduler, load Load) (result Flowed, err error) {
	ctx, cancel := context.WithTimeout(ctx, load.Duration+patience)
	defer cancel()
	process, err := l.start(ctx, s)
	if err != nil {
		return Flowed{}, err
	}
	defer func() { err = errors.Join(err, process.Stop()) }()
	if err := l.awaitLeader(ctx, process.Done()); err != nil {
		return Flowed{}, err
	}
	f := &flow{lab: l, created: map[types.UID]time.Time{}, bound: map[types.UID]time.Time{}}
	if load.Rate == 0 {
		f.waiting = make(chan struct{}, outstanding)
	}
	began := time.Now()
	if err := f.run(ctx, load, process.Done()); err != nil {
		return Flowed{}, err
	}
	result = f.result(time.Since(began))
	counted, err := l.scrape(process.Port())
	result.Flushed = counted.flushed()
	return result, err
}

// awaitLeader returns when the scheduler has placed a first pod, which is taken away again.
func (l *Lab) awaitLeader(ctx context.Context, ended <-chan struct{}) error {
	seen, err := l.watchBindings(ctx)
	if err != nil {
		return err
	}
	defer seen.stop()
	if err := l.createPods(ctx, 1, 1); err != nil {
		return fmt.Errorf("creating a first pod: %w", err)
	}
	if _, _, err := seen.next(ctx, ended); err != nil {
		return err
	}
	return l.deletePods(ctx)
}

// run creates pods for as long as the load says, and returns when the last of them is bound and deleted.
func (f *flow) run(ctx context.Context, load Load, ended <-chan struct{}) error {
	seen, err := f.lab.watchBindings(ctx)
	if err != nil {
		return err
	}
	defer seen.stop()
	total := make(chan int, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.create(ctx, load, total) })
	g.Go(func() error { return f.follow(ctx, seen, ended, total) })
	return g.Wait()
}

// follow notes when pods are bound, and deletes them, until that was all of them. How many they are is known before
// the last of them is bound.
func (f *flow) follow(ctx context.Context, seen *bindings, ended <-chan struct{}, total <-chan int) error {
	var deleting errgroup.Group
	deleting.SetLimit(writers)
	want := -1
	for bound := 0; want < 0 || bound < want; bound++ {
		pod, at, err := seen.next(ctx, ended)
		if err != nil {
			return err
		}
		f.note(f.bound, pod.UID, at)
		if f.waiting != nil {
			<-f.waiting
		}
		deleting.Go(func() error { return f.remove(ctx, pod) })
		select {
		case want = <-total:
		default:
		}
	}
	return deleting.Wait()
}

// create creates the pods, and tells how many when the last is there.
func (f *flow) create(ctx context.Context, load Load, total chan<- int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8 * writers)
	began, count := time.Now(), 0
	for ; time.Since(began) < load.Duration && ctx.Err() == nil; count++ {
		if err := f.pace(ctx, load.Rate, began, count); err != nil {
			break // for the reason that the group returns
		}
		pod := f.lab.fleet.Pod(count, 1)
		g.Go(func() error {
			created, err := f.lab.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("creating a pod: %w", err)
			}
			f.note(f.created, created.UID, time.Now())
			return nil
		})
	}
	total <- count
	return g.Wait()
}

// pace waits until the next pod is due.
func (f *flow) pace(ctx context.Context, rate float64, began time.Time, count int) error {
	if f.waiting == nil {
		time.Sleep(time.Until(began.Add(time.Duration(float64(count) / rate * float64(time.Second)))))
		return ctx.Err()
	}
	select {
	case f.waiting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *flow) remove(ctx context.Context, pod *corev1.Pod) error {
	err := f.lab.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting a pod: %w", err)
	}
	return nil
}

func (f *flow) note(times map[types.UID]time.Time, pod types.UID, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	times[pod] = at
}

func (f *flow) result(took time.Duration) Flowed {
	var waits []time.Duration
	for pod, bound := range f.bound {
		// The news of the binding may come before the answer to the creation.
		waits = append(waits, max(bound.Sub(f.created[pod]), 0))
	}
	slices.Sort(waits)
	at := func(q float64) time.Duration { return waits[int(q*float64(len(waits)-1))] }
	return Flowed{
		Pods: len(waits), PodsPerSecond: float64(len(waits)) / took.Seconds(),
		P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: at(1),
	}
}
