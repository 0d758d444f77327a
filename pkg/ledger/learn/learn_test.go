package learn

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// TestFollow: what is known by the ledger at some times, whatever it answers until then.
func TestFollow(t *testing.T) {
	alike := func(seconds int64, count int) []ledger.Run {
		return slices.Repeat([]ledger.Run{{Namespace: "team", User: "ada", Pool: "default", GPUs: 8, Seconds: seconds}}, count)
	}
	dead := errors.New("nobody answers")
	for name, tc := range map[string]struct {
		answer func(ctx context.Context, since time.Duration) ([]ledger.Run, error)
		// want is how long a job of the namespace runs at most, by when that is asked; none is not known.
		want map[time.Duration]time.Duration
	}{
		"it answers, and learns more": {
			answer: func(_ context.Context, since time.Duration) ([]ledger.Run, error) {
				return alike(int64(60+since/time.Minute), 20), nil
			},
			want: map[time.Duration]time.Duration{time.Second: time.Minute, 11 * time.Minute: 70 * time.Second},
		},
		"it comes later": {
			answer: func(_ context.Context, since time.Duration) ([]ledger.Run, error) {
				if since < 5*time.Minute {
					return nil, dead
				}
				return alike(60, 20), nil
			},
			want: map[time.Duration]time.Duration{time.Minute: survival.Never, 7 * time.Minute: time.Minute},
		},
		"it is gone for longer than a day": {
			answer: func(_ context.Context, since time.Duration) ([]ledger.Run, error) {
				if since > 0 {
					return nil, dead
				}
				return alike(60, 20), nil
			},
			want: map[time.Duration]time.Duration{23 * time.Hour: time.Minute, 25 * time.Hour: survival.Never},
		},
		"it lets wait": {
			answer: func(ctx context.Context, _ time.Duration) ([]ledger.Run, error) { <-ctx.Done(); return nil, ctx.Err() },
			want:   map[time.Duration]time.Duration{time.Hour: survival.Never},
		},
		"it says what cannot be": {
			answer: func(context.Context, time.Duration) ([]ledger.Run, error) { return alike(-1<<62, 20), nil },
			want:   map[time.Duration]time.Duration{time.Second: 0},
		},
		"it says that all run for ever": {
			answer: func(context.Context, time.Duration) ([]ledger.Run, error) { return alike(1<<62, 20), nil },
			want:   map[time.Duration]time.Duration{time.Second: 100 * 365 * 24 * time.Hour},
		},
		"it says more than was asked": {
			answer: func(context.Context, time.Duration) ([]ledger.Run, error) {
				return append(alike(60, ledger.RunsToLearn), alike(1, 10_000)...), nil
			},
			want: map[time.Duration]time.Duration{time.Second: time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				var past atomic.Pointer[survival.History]
				begin := time.Now()
				runs := func(ctx context.Context, q client.Query) ([]ledger.Run, bool, error) {
					found, err := tc.answer(ctx, time.Since(begin))
					return found, false, err
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					RefreshHistory(ctx, runs, past.Store)
				}()
				got := map[time.Duration]time.Duration{}
				for _, at := range slices.Sorted(maps.Keys(tc.want)) {
					time.Sleep(at - time.Since(begin))
					synctest.Wait()
					got[at] = past.Load().RemainingByOwner(survival.Job{Namespace: "team", GPUs: 8}, 0, 0).Quantile(0.95)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("known (-want +got):\n%s", diff)
				}
				stop()
				<-done
			})
		})
	}
}
