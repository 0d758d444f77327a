package fair

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// enter comes in at once, or fails the test.
func enter(t *testing.T, g *Gate, who string, size int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	leave, err := g.Enter(ctx, who, size)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

// waits says whether a caller would wait.
func waits(g *Gate, who string, size int) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	leave, err := g.Enter(ctx, who, size)
	if err == nil {
		leave()
	}
	return errors.Is(err, context.Canceled)
}

func TestACallerHoldsNoMoreThanOneMay(t *testing.T) {
	g := New(Limits{Total: 10, Each: 4, Waiting: 2})
	leave := enter(t, g, "greedy", 4)
	if !waits(g, "greedy", 1) {
		t.Error("one holds more than each may")
	}
	enter(t, g, "other", 4)
	if !waits(g, "third", 4) {
		t.Error("all hold more than all may")
	}
	enter(t, g, "third", 2)
	leave()
	leave()
	enter(t, g, "greedy", 4)
	if !waits(g, "fourth", 1) {
		t.Error("leaving twice gave back twice")
	}
}

func TestOneThatIsTooLargeComesAlone(t *testing.T) {
	g := New(Limits{Total: 10, Each: 4, Waiting: 2})
	enter(t, g, "large", 1000)
	if !waits(g, "large", 1) {
		t.Error("it holds less than it may")
	}
}

// TestThoseWhoWaitAreServedInTurn, so that one who sends a hundred requests delays another by one.
func TestThoseWhoWaitAreServedInTurn(t *testing.T) {
	g := New(Limits{Total: 1, Each: 1, Waiting: 100})
	leave := enter(t, g, "greedy", 1)
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	come := func(who string, waiting int) {
		all.Go(func() {
			leave, err := g.Enter(t.Context(), who, 1)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, who)
			mu.Unlock()
			leave()
		})
		waitFor(g, waiting)
	}
	for i := range 4 {
		come("greedy", i+1)
	}
	come("other", 5)
	come("third", 6)
	leave()
	all.Wait()
	if diff := cmp.Diff([]string{"greedy", "other", "third", "greedy", "greedy", "greedy"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTooManyThatWaitAreRefused(t *testing.T) {
	g := New(Limits{Total: 1, Each: 1, Waiting: 1})
	leave := enter(t, g, "greedy", 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := g.Enter(ctx, "greedy", 1)
		ended <- err
	}()
	waitFor(g, 1)
	if _, err := g.Enter(ctx, "greedy", 1); !errors.As(err, new(*FullError)) {
		t.Errorf("one more waits than may: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	leave()
	enter(t, g, "greedy", 1)()
	if len(g.callers) != 0 || len(g.queue) != 0 || g.held != 0 {
		t.Errorf("callers are remembered who hold nothing: %v", g)
	}
}

// TestWhatIsHeldTooLongIsTakenBackForOthers: callers without number hold all of it and take nothing. Another comes in soon, and
// who has held longest loses theirs; nobody does while there is room.
func TestWhatIsHeldTooLongIsTakenBackForOthers(t *testing.T) {
	const patience = 100 * time.Millisecond
	g := New(Limits{Total: 6, Each: 2, Waiting: 2, ReclaimAfter: patience})
	lost := make(chan int, 10)
	for i := range 6 {
		var leave func()
		ready := make(chan struct{})
		leave, err := g.EnterUntil(t.Context(), fmt.Sprint("greedy", i), 1, func() { <-ready; lost <- i; leave() })
		if err != nil {
			t.Fatal(err)
		}
		close(ready)
	}
	time.Sleep(2 * patience)
	if len(lost) > 0 {
		t.Fatalf("%d lost theirs, and nobody waits", <-lost)
	}
	enter(t, g, "other", 2)
	if first, second := <-lost, <-lost; first+second != 1 {
		t.Errorf("%d and %d lost theirs, want those who had held longest", first, second)
	}
	began := time.Now()
	g = New(Limits{Total: 1, Each: 1, Waiting: 2, ReclaimAfter: patience})
	var leave func()
	leave, err := g.EnterUntil(t.Context(), "quick", 1, func() { leave() })
	if err != nil {
		t.Fatal(err)
	}
	enter(t, g, "other", 1)
	if took := time.Since(began); took < patience {
		t.Errorf("it was taken back after %s, want %s", took, patience)
	}
}

// waitFor returns when so many wait.
func waitFor(g *Gate, waiting int) {
	for {
		g.mu.Lock()
		n := 0
		for _, c := range g.callers {
			n += len(c.waiting)
		}
		g.mu.Unlock()
		if n == waiting {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestNothingIsLost when many come and give up at the same time.
func TestNothingIsLost(t *testing.T) {
	g := New(Limits{Total: 5, Each: 3, Waiting: 1000})
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
			defer cancel()
			leave, err := g.Enter(ctx, fmt.Sprint(i%5), i%4)
			if err == nil {
				time.Sleep(time.Millisecond)
				leave()
			}
		})
	}
	all.Wait()
	if len(g.callers) != 0 || len(g.queue) != 0 || g.held != 0 {
		t.Errorf("%d are held, %d callers and %d turns remembered", g.held, len(g.callers), len(g.queue))
	}
}
