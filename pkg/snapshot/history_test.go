package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// store is an API server with a history that can be cut off, and whose watches and lists fail when told to.
type store struct {
	revision int
	there    map[string]int // pod -> revision
	mu       sync.Mutex
	events   []watch.Event
	first    int // the oldest revision that a watch may begin after
	watches  []*watch.RaceFreeFakeWatcher
	failing  int // requests that fail before one does not
	began    chan struct{}
}

func newStore() *store { return &store{there: map[string]int{}, began: make(chan struct{}, 9)} }

func (s *store) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(s.revision)}}
}

func (s *store) happen(kind watch.EventType, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.there[name] = s.revision
	if kind == watch.Deleted {
		delete(s.there, name)
	}
	event := watch.Event{Type: kind, Object: s.pod(name)}
	s.events = append(s.events, event)
	for _, w := range s.watches {
		w.Action(kind, event.Object)
	}
}

func (s *store) fail() error {
	if s.failing > 0 {
		s.failing--
		return apierrors.NewInternalError(errors.New("try again"))
	}
	return nil
}

func (s *store) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.revision)}}
	for name := range s.there {
		list.Items = append(list.Items, *s.pod(name))
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return s.there[a.Name] - s.there[b.Name] })
	return list, s.fail()
}

func (s *store) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail(); err != nil {
		return nil, err
	}
	from, _ := strconv.Atoi(options.ResourceVersion)
	w := watch.NewRaceFreeFake()
	if from < s.first {
		w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		return w, nil
	}
	for _, event := range s.events {
		if at, _ := strconv.Atoi(event.Object.(*corev1.Pod).ResourceVersion); at > from {
			w.Action(event.Type, event.Object)
		}
	}
	s.watches = append(s.watches, w)
	s.began <- struct{}{}
	return w, nil
}

// cut ends all watches, as an API server that restarts does, and lets some requests fail.
func (s *store) cut(failing int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = failing
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

// diary notes what it is told.
type diary struct {
	began time.Time
	lines []string
	at    Point
	err   error
}

func (d *diary) second(t time.Time) string { return fmt.Sprintf("%.0f", t.Sub(d.began).Seconds()) }

func (d *diary) HandleList(objects []metav1.Object, since time.Time, at Point) error {
	line := "listed"
	for _, o := range objects {
		line += " " + o.GetName()
	}
	if !since.IsZero() {
		line += " after " + d.second(since)
	}
	d.lines, d.at = append(d.lines, line), at
	return d.err
}

func (d *diary) HandleChanges(changes []Change, at Point) error {
	for _, c := range changes {
		line := c.Object.GetName()
		if c.Gone {
			line += " gone"
		}
		d.lines = append(d.lines, line+" "+d.second(c.Since)+"-"+d.second(c.At))
	}
	d.at = at
	return d.err
}

// slimDiary keeps a part of what is listed.
type slimDiary struct{ *diary }

func (slimDiary) ReduceObject(object metav1.Object) metav1.Object {
	return &metav1.ObjectMeta{Name: "slim-" + object.GetName()}
}

// TestAListMayBeSlim: of each object that is listed, no more is held than the chronicle needs.
func TestAListMayBeSlim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.happen(watch.Added, "a")
		d := slimDiary{&diary{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- WatchHistory(ctx, nil, wantOf(s), Point{}, d, func(error) {}) }()
		time.Sleep(time.Second)
		cancel()
		<-done
		if diff := cmp.Diff([]string{"listed slim-a"}, d.lines); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func wantOf(s *store) Query {
	return Query{part: PartPods, source: func(kubernetes.Interface) cache.ListerWatcherWithContext { return s }}
}

// TestHistory has a follower that is away, an API server that forgets, and watches that break.
func TestHistory(t *testing.T) {
	tests := map[string]struct {
		run  func(s *store, d *diary, follow func(Point) (stop func()))
		want []string
	}{
		"what is there, and what happens then, at once": {want: []string{"listed a", "b 5-5", "a gone 7-7"},
			run: func(s *store, _ *diary, follow func(Point) func()) {
				s.happen(watch.Added, "a")
				stop := follow(Point{})
				time.Sleep(5 * time.Second)
				s.happen(watch.Added, "b")
				time.Sleep(2 * time.Second)
				s.happen(watch.Deleted, "a")
				time.Sleep(time.Second)
				stop()
			}},
		"who was away hears all, and from when on it may have happened": {want: []string{"listed", "a 3-3", "b 3-60", "a gone 3-60", "c 62-62"},
			run: func(s *store, d *diary, follow func(Point) func()) {
				stop := follow(Point{})
				time.Sleep(3 * time.Second)
				s.happen(watch.Added, "a")
				time.Sleep(time.Second)
				stop()
				time.Sleep(26 * time.Second)
				s.happen(watch.Added, "b")
				s.happen(watch.Deleted, "a")
				time.Sleep(30 * time.Second)
				stop = follow(d.at)
				time.Sleep(2 * time.Second)
				s.happen(watch.Added, "c")
				time.Sleep(time.Second)
				stop()
			}},
		"who was away for too long hears what there is": {want: []string{"listed", "a 3-3", "listed b after 3"},
			run: func(s *store, d *diary, follow func(Point) func()) {
				stop := follow(Point{})
				time.Sleep(3 * time.Second)
				s.happen(watch.Added, "a")
				time.Sleep(time.Second)
				stop()
				s.happen(watch.Added, "b")
				s.happen(watch.Deleted, "a")
				s.first = s.revision
				stop = follow(d.at)
				time.Sleep(3 * time.Second)
				stop()
			}},
		"a watch that breaks, and requests that fail": {want: []string{"listed", "a 3-3", "b 3-8", "c 9-9"},
			run: func(s *store, _ *diary, follow func(Point) func()) {
				stop := follow(Point{})
				time.Sleep(3 * time.Second)
				s.happen(watch.Added, "a")
				time.Sleep(time.Second)
				s.cut(3)
				s.happen(watch.Added, "b")
				time.Sleep(5 * time.Second)
				s.happen(watch.Added, "c")
				time.Sleep(time.Second)
				stop()
			}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, d := newStore(), &diary{began: time.Now()}
				tc.run(s, d, func(from Point) func() {
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- WatchHistory(ctx, nil, wantOf(s), from, d, func(error) {}) }()
					return func() {
						cancel()
						if err := <-done; !errors.Is(err, context.Canceled) {
							t.Errorf("it ended with %v", err)
						}
					}
				})
				if diff := cmp.Diff(tc.want, d.lines); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// fixedClock says what it is told.
type fixedClock struct {
	clock.WithTicker
	now *time.Time
}

func (c fixedClock) Now() time.Time { return *c.now }

// TestAStoppedProcessDoesNotTakeOldNewsForNew: what has waited for it may have happened since it was stopped.
func TestAStoppedProcessDoesNotTakeOldNewsForNew(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	h := &historyWatch{clock: fixedClock{now: &now}, lastHeartbeat: now}
	if h.recordHeartbeat(); !h.earliestTime(now).Equal(now) {
		t.Error("a process that listens hears what happens at once")
	}
	stopped := now
	now = now.Add(20 * time.Second)
	if h.recordHeartbeat(); !h.earliestTime(now).Equal(stopped) {
		t.Errorf("what it hears first happened after %v, want %v", h.earliestTime(now), stopped)
	}
	for range 6 {
		now = now.Add(heartbeatInterval)
		h.recordHeartbeat()
	}
	if !h.earliestTime(now).Equal(now) {
		t.Error("it never listens again")
	}
}

func TestAChronicleThatCannotGoOnEndsTheTelling(t *testing.T) {
	full := errors.New("the disk is full")
	s, d := newStore(), &diary{err: full}
	if err := WatchHistory(t.Context(), nil, wantOf(s), Point{}, d, func(error) {}); !errors.Is(err, full) {
		t.Errorf("it ended with %v, want %v", err, full)
	}
	if err := WatchHistory(t.Context(), nil, Query{part: PartLease}, Point{}, d, func(error) {}); err == nil {
		t.Error("what cannot be watched was followed")
	}
}
