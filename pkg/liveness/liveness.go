// Package liveness tells a scheduling loop that stands still from one that has nothing to do. A plugin that blocks stops
// the one loop that there is, and with it all pods of the cluster, while the process answers, holds its lease and looks
// well: nobody else notices.
package liveness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultLimit is how long a loop may stand still while pods wait. A cycle takes a millisecond.
const DefaultLimit = 30 * time.Second

// period is how often the loop is looked at.
const period = time.Second

// Loop is what a scheduling loop tells of itself. The zero value has not begun. nil is told nothing.
type Loop struct {
	// turns counts what the loop does: asking for a pod, and getting one.
	turns atomic.Int64
	reads atomic.Int64
	pod   atomic.Pointer[string]
}

// Asks notes that the loop asks for the next pod: the cycle of the one before has ended.
func (l *Loop) Asks() {
	if l == nil {
		return
	}
	l.pod.Store(nil)
	l.turns.Add(1)
}

// Takes notes that the cycle of a pod begins.
func (l *Loop) Takes(pod string) {
	if l == nil {
		return
	}
	l.pod.Store(&pod)
	l.turns.Add(1)
}

// Reads notes that a cycle has read a node which none has read before: the first cycle reads all of them, with all pods that are there, which
// on a large cluster and a busy machine takes as long as a loop may stand still. So would that of the next leader.
func (l *Loop) Reads() {
	if l != nil {
		l.reads.Add(1)
	}
}

// Sight is a loop at one moment.
type Sight struct {
	// Turns is what the loop has done so far, 0 before it begins. That of a process that stands by never does.
	Turns int64
	// Reads is how many nodes it has read.
	Reads int64
	// Busy is the pod whose cycle runs, "" between two.
	Busy string
	// Waiting tells that there are pods in the active queue, or that the queue does not say.
	Waiting bool
}

// Sight is the loop now, as far as it tells of itself: not whether pods wait.
func (l *Loop) Sight() Sight {
	sight := Sight{Turns: l.turns.Load(), Reads: l.reads.Load()}
	if pod := l.pod.Load(); pod != nil {
		sight.Busy = *pod
	}
	return sight
}

// Stillness measures how long a loop has stood still. The zero value has seen no loop.
type Stillness struct {
	last         time.Time
	turns, reads int64
	still        time.Duration
}

// See adds a sight of the loop, and returns for how long it has stood still while a pod waits: the one whose cycle runs, or
// any that could be next. Time in which nobody looked counts no more than two looks: a process that was stopped stood still
// as a whole, and its loop has done nothing wrong.
func (s *Stillness) See(now time.Time, loop Sight) time.Duration {
	elapsed := min(now.Sub(s.last), 2*period)
	moved := s.last.IsZero() || loop.Turns != s.turns || loop.Reads != s.reads
	s.last, s.turns, s.reads = now, loop.Turns, loop.Reads
	if moved || loop.Turns == 0 || loop.Busy == "" && !loop.Waiting {
		s.still = 0
	} else {
		s.still += elapsed
	}
	return s.still
}

// Watch looks at a loop.
type Watch struct {
	// Loop is who is watched.
	Loop *Loop
	// Waiting reports whether the active queue has pods. It may block for as long as the queue is locked.
	Waiting func() bool
	// Limit is how long the loop may stand still.
	Limit time.Duration
	// Stalled is called, once, when it has.
	Stalled func(error)

	asking, waiting atomic.Bool
	once            sync.Once
	fault           atomic.Pointer[error]
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var stillness Stillness
	for {
		w.ask()
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.judge(stillness.See(now, w.look()))
		}
	}
}

// ask asks the queue, in the background: who holds its lock forever stops the loop, too, and must not stop the watch.
func (w *Watch) ask() {
	if !w.asking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		w.waiting.Store(w.Waiting())
		w.asking.Store(false)
	}()
}

func (w *Watch) look() Sight {
	sight := w.Loop.Sight()
	sight.Waiting = w.waiting.Load() || w.asking.Load()
	return sight
}

func (w *Watch) judge(still time.Duration) {
	if still < w.Limit {
		w.fault.Store(nil)
		return
	}
	err := fmt.Errorf("the scheduling loop has stood still for %s while pods wait", still.Round(period))
	if pod := w.Loop.pod.Load(); pod != nil {
		err = fmt.Errorf("the scheduling loop has stood still for %s, at pod %s", still.Round(period), *pod)
	}
	w.fault.Store(&err)
	w.once.Do(func() { w.Stalled(err) })
}

// Err tells that the loop stands still, for longer than it may.
func (w *Watch) Err() error {
	if fault := w.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}
