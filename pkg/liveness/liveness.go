// Package liveness distinguishes a stalled scheduling loop from an idle one. A plugin that blocks stops the only loop, and with it all pods of the
// cluster, while the process answers, holds its lease and looks healthy: nothing else notices.
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

// period is the interval between checks of the loop.
const period = time.Second

// Loop records the activity of a scheduling loop. The zero value has not begun. A nil Loop ignores all calls.
type Loop struct {
	// turns counts the loop's actions: requesting a pod, and getting one.
	turns atomic.Int64
	reads atomic.Int64
	pod   atomic.Pointer[string]
}

// NoteAsking records that the loop requests the next pod: the previous cycle has ended.
func (l *Loop) NoteAsking() {
	if l == nil {
		return
	}
	l.pod.Store(nil)
	l.turns.Add(1)
}

// NotePod records that the cycle of a pod begins.
func (l *Loop) NotePod(pod string) {
	if l == nil {
		return
	}
	l.pod.Store(&pod)
	l.turns.Add(1)
}

// NoteNodeRead records that a cycle has read a node for the first time. The first cycle reads all nodes with all their pods. On a large cluster and a busy
// machine this takes as long as a loop may stand still, and would with the next leader, too.
func (l *Loop) NoteNodeRead() {
	if l != nil {
		l.reads.Add(1)
	}
}

// LoopState is the state of a loop at one moment.
type LoopState struct {
	// Turns counts the loop's actions so far, 0 before it begins. On a standby it stays 0.
	Turns int64
	// Reads counts the nodes it has read.
	Reads int64
	// Busy is the pod of the current cycle, "" between two.
	Busy string
	// Waiting says that the active queue has pods, or does not answer.
	Waiting bool
}

// CurrentState returns the current state of the loop, without Waiting.
func (l *Loop) CurrentState() LoopState {
	sight := LoopState{Turns: l.turns.Load(), Reads: l.reads.Load()}
	if pod := l.pod.Load(); pod != nil {
		sight.Busy = *pod
	}
	return sight
}

// StallTimer measures how long a loop has stood still. The zero value is ready.
type StallTimer struct {
	last         time.Time
	turns, reads int64
	still        time.Duration
}

// ObserveState adds an observation of the loop, and returns how long it has stood still while a pod waits: the one in its cycle, or any in the queue. A longer
// gap between observations counts as two periods: a suspended process stood still as a whole, and its loop is not at fault.
func (s *StallTimer) ObserveState(now time.Time, loop LoopState) time.Duration {
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

// Watch monitors a loop.
type Watch struct {
	// Loop is the monitored loop.
	Loop *Loop
	// Waiting reports whether the active queue has pods. It may block while the queue is locked.
	Waiting func() bool
	// Limit is how long the loop may stand still.
	Limit time.Duration
	// Stalled is called once when it has.
	Stalled func(error)

	asking, waiting atomic.Bool
	once            sync.Once
	fault           atomic.Pointer[error]
}

// Run monitors the loop until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var stillness StallTimer
	for {
		w.pollQueue()
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.checkStall(stillness.ObserveState(now, w.observeLoop()))
		}
	}
}

// pollQueue queries the queue in the background: a lock that is never released stops the loop, too, and must not stop the watch.
func (w *Watch) pollQueue() {
	if !w.asking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		w.waiting.Store(w.Waiting())
		w.asking.Store(false)
	}()
}

func (w *Watch) observeLoop() LoopState {
	sight := w.Loop.CurrentState()
	sight.Waiting = w.waiting.Load() || w.asking.Load()
	return sight
}

func (w *Watch) checkStall(still time.Duration) {
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

// Err returns an error while the loop has stood still for longer than it may.
func (w *Watch) Err() error {
	if fault := w.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}
