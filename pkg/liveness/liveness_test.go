package liveness

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStillness(t *testing.T) {
	// look is what is seen, and how long after the look before.
	type look struct {
		after time.Duration
		LoopState
	}
	every := func(d time.Duration, count int, sight func(i int) LoopState) (looks []look) {
		for i := range count {
			looks = append(looks, look{d, sight(i)})
		}
		return looks
	}
	same := func(s LoopState) func(int) LoopState { return func(int) LoopState { return s } }
	tests := map[string]struct {
		looks []look
		want  time.Duration
	}{
		"a loop that never looked":                {nil, 0},
		"a standby, whose queue fills":            {every(time.Second, 60, same(LoopState{Waiting: true})), 0},
		"a leader with nothing to do":             {every(time.Second, 60, same(LoopState{Turns: 7})), 0},
		"all pods are gated, or back off":         {every(time.Second, 60, same(LoopState{Turns: 7})), 0},
		"a plugin that blocks in a cycle":         {every(time.Second, 31, same(LoopState{Turns: 7, Busy: "a/p"})), 30 * time.Second},
		"whether or not others wait":              {every(time.Second, 31, same(LoopState{Turns: 7, Busy: "a/p", Waiting: true})), 30 * time.Second},
		"a queue that gives none of its pods out": {every(time.Second, 31, same(LoopState{Turns: 7, Waiting: true})), 30 * time.Second},
		"slow, but it moves": {every(time.Second, 60, func(i int) LoopState {
			return LoopState{Turns: int64(1 + i/20), Busy: "a/p", Waiting: true}
		}), 19 * time.Second},
		"the first cycle reads a large cluster": {every(time.Second, 60, func(i int) LoopState {
			return LoopState{Turns: 2, Reads: int64(min(100*i, 5000)), Busy: "a/p", Waiting: true}
		}), 9 * time.Second},
		"it moves on at last": {append(every(time.Second, 60, same(LoopState{Turns: 7, Busy: "a/p"})), look{time.Second, LoopState{Turns: 8, Waiting: true}}), 0},
		"pods come after a long time of none": {append(every(time.Second, 60, same(LoopState{Turns: 7})),
			every(time.Second, 5, same(LoopState{Turns: 7, Waiting: true}))...), 5 * time.Second},
		"the last pod that waited is gone": {append(every(time.Second, 20, same(LoopState{Turns: 7, Waiting: true})), look{time.Second, LoopState{Turns: 7}}), 0},
		"the whole process was stopped for a minute": {append(every(time.Second, 5, same(LoopState{Turns: 7, Busy: "a/p"})),
			look{time.Minute, LoopState{Turns: 7, Busy: "a/p"}}), 6 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var s StallTimer
			now, got := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Duration(0)
			for _, look := range tc.looks {
				now = now.Add(look.after)
				got = s.ObserveState(now, look.LoopState)
			}
			if got != tc.want {
				t.Errorf("it has stood still for %s, want %s", got, tc.want)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	forever := make(chan struct{})
	tests := map[string]struct {
		loop    func(*Loop)
		waiting func() bool
		want    string // in the error, "" for none
	}{
		"a standby":             {func(*Loop) {}, func() bool { return true }, ""},
		"it waits for a pod":    {func(l *Loop) { l.NoteAsking() }, func() bool { return false }, ""},
		"a cycle that ends not": {func(l *Loop) { l.NoteAsking(); l.NotePod("team/bad") }, func() bool { return false }, "at pod team/bad"},
		"a cycle that has ended": {func(l *Loop) {
			l.NotePod("team/bad")
			l.NoteAsking()
		}, func() bool { return false }, ""},
		"nobody takes what waits":     {func(l *Loop) { l.NoteAsking() }, func() bool { return true }, "while pods wait"},
		"the queue is locked forever": {func(l *Loop) { l.NoteAsking() }, func() bool { <-forever; return false }, "while pods wait"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			forever = make(chan struct{})
			synctest.Test(t, func(t *testing.T) {
				forever = make(chan struct{})
				defer close(forever)
				var told atomic.Int32
				w := &Watch{Loop: &Loop{}, Waiting: tc.waiting, Limit: DefaultLimit, Stalled: func(error) { told.Add(1) }}
				tc.loop(w.Loop)
				go w.Run(t.Context())
				time.Sleep(DefaultLimit - period/2)
				synctest.Wait()
				if err := w.Err(); err != nil || told.Load() > 0 {
					t.Errorf("before its time: %v", err)
				}
				time.Sleep(4 * period)
				synctest.Wait()
				err := w.Err()
				if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || !strings.Contains(got, tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				if want := err != nil; (told.Load() == 1) != want {
					t.Errorf("told %d times", told.Load())
				}
				w.Loop.NoteAsking()
				w.Loop.NotePod("team/next")
				time.Sleep(2 * period)
				synctest.Wait()
				if tc.want != "" && !strings.Contains(tc.want, "pods wait") && w.Err() != nil {
					t.Errorf("it moves again: %v", w.Err())
				}
			})
		})
	}
}

func TestNobodyWatches(*testing.T) {
	var l *Loop
	l.NoteAsking()
	l.NotePod("a/p")
}
