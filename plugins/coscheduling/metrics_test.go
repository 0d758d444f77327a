package coscheduling

import (
	"slices"
	"testing"
	"time"

	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// evictedFor is how many pods were evicted for something, by the metric.
func evictedFor(t *testing.T, what string) int {
	t.Helper()
	registerMetrics()
	value, err := testutil.GetCounterMetricValue(evictions.WithLabelValues(what))
	if err != nil {
		t.Fatal(err)
	}
	return int(value)
}

// TestEachEvictionIsCountedOnce, by what it is for: also those that were told before, and those that leave as half a gang.
func TestEachEvictionIsCountedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		what    string
		evicts  func(l *lab, now *time.Time)
		evicted []string
		// victims are those that left together, by turn.
		victims []int
	}{
		"for a gang": {what: forGang, evicted: []string{"a", "b"}, victims: []int{2}, evicts: func(l *lab, _ *time.Time) {
			l.running(0, "a", 1, ofPriority(-1))
			l.running(1, "b", 1, ofPriority(-1))
			l.refuse(l.member("m0"))
		}},
		"for a gang, after a notice": {what: forGang, evicted: []string{"a"}, victims: []int{1}, evicts: func(l *lab, now *time.Time) {
			l.TakeOver()
			l.running(0, "a", 1, ofPriority(-1), polite("1m"))
			m := l.member("m0")
			l.refuse(m)
			*now = now.Add(time.Minute)
			l.refuse(m)
		}},
		"for a pod that is guaranteed them": {what: forQuota, evicted: []string{"a"}, victims: []int{1}, evicts: func(l *lab, _ *time.Time) {
			l.running(0, "a", 1, inNamespace("other"))
			l.running(1, "b", 5, inNamespace("other"))
			pod := l.alone("ns", "m0")
			l.share(quotaOf("ns", 8, 0))
			l.postFilter(framework.NewCycleState(), pod)
		}},
		"as half a gang": {what: forPartialGang, evicted: []string{"a"}, evicts: func(l *lab, now *time.Time) {
			l.podChanged(l.member("a", bornAt(0), boundAfter(5, "n0")))
			*now = now.Add(10 * time.Second)
			zombie := l.member("m0", bornAt(0))
			l.RecordRefusal(zombie, "no")
			*now = now.Add(2 * phase.CompleteWithin)
			l.RecordRefusal(zombie, "no")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			now := l.keepsClock()
			l.obeys()
			var victims []int
			l.OnEvictions(func(count int) { victims = append(victims, count) })
			l.group("g", map[string]any{"minMember": int64(2)})
			if tc.what != forPartialGang && tc.what != forQuota {
				l.member("m1")
			}
			before := map[string]int{}
			for _, what := range []string{forPod, forGang, forQuota, forPartialGang} {
				before[what] = evictedFor(t, what)
			}
			tc.evicts(l, now)
			if evicted := l.evicted(); !slices.Equal(evicted, tc.evicted) {
				t.Fatalf("%v are evicted, want %v", evicted, tc.evicted)
			}
			for what, count := range before {
				want := 0
				if what == tc.what {
					want = len(tc.evicted)
				}
				if got := evictedFor(t, what) - count; got != want {
					t.Errorf("%d are counted for %s, want %d", got, what, want)
				}
			}
			if !slices.Equal(victims, tc.victims) {
				t.Errorf("%v have left together, want %v", victims, tc.victims)
			}
		})
	}
}
