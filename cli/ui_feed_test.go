package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// TestAFeedIsLiveOnlyWhileItIs: what is seen is of now from a report of a watch to the first trouble.
func TestAFeedIsLiveOnlyWhileItIs(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 1, 12, 0, second, 0, time.UTC) }
	now := at(59)
	tests := map[string]struct {
		happens func(f *feed[string])
		value   string
		read    time.Time
		trouble string
	}{
		"nothing was read":           {func(*feed[string]) {}, "", time.Time{}, ""},
		"a watch tells":              {func(f *feed[string]) { f.reportValue("a", at(1), true) }, "a", now, ""},
		"it was read, and no more":   {func(f *feed[string]) { f.reportValue("a", at(1), false) }, "a", at(1), ""},
		"a watch does not stand yet": {func(f *feed[string]) { f.reportInitial("a", at(1)) }, "a", at(1), ""},
		"a watch is lost": {func(f *feed[string]) {
			f.reportValue("a", at(1), true)
			f.reportFailure("no", at(5))
			f.reportFailure("no way", at(9))
		}, "a", at(5), "no way"},
		"a watch is lost of which the last word is later": {func(f *feed[string]) {
			f.reportValue("a", at(7), true)
			f.reportFailure("no", at(5))
		}, "a", at(7), "no"},
		"it is read, and not watched": {func(f *feed[string]) {
			f.reportValue("a", at(1), true)
			f.reportFailure("no", at(5))
			f.reportInitial("b", at(9))
		}, "b", at(9), "no"},
		"it is watched again": {func(f *feed[string]) {
			f.reportValue("a", at(1), true)
			f.reportFailure("no", at(5))
			f.reportValue("b", at(9), true)
		}, "b", now, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFeed[string](new(atomic.Int64))
			tc.happens(f)
			if value, read, trouble := f.latestValue(now); value != tc.value || !read.Equal(tc.read) || trouble != tc.trouble {
				t.Errorf("it is %q of %s with %q, want %q of %s with %q", value, read, trouble, tc.value, tc.read, tc.trouble)
			}
		})
	}
}

// TestReadersTryAgainLaterAndLater, and soon again once they have read something.
func TestReadersTryAgainLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams, _, _ := TestIOStreams("")
		u := &ui{factory: NewFactory(streams), reader: inventory.NewReader(nil)}
		f := newFeed[int](new(atomic.Int64))
		ctx, end := context.WithCancel(t.Context())
		var waits []time.Duration
		last := time.Now()
		u.readContinuously(ctx, f, func(context.Context, *inventory.Reader) error {
			waits = append(waits, time.Since(last))
			last = time.Now()
			switch len(waits) {
			case 10:
				f.reportValue(1, last, true)
			case 12:
				end()
			}
			return errors.New("no")
		})
		for i, wait := range waits[1:] {
			least := min(time.Second<<i, time.Minute)
			if i >= 9 { // it has read something
				least = time.Second << (i - 9)
			}
			if wait < least || wait > least*3/2 {
				t.Errorf("attempt %d comes after %s, want %s and up to half of that", i+2, wait, least)
			}
		}
	})
}
