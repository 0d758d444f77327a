package coscheduling

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// TestAReplacementThatIsRefused has a gang of two run for an hour, of which one member is made again, and loses its place. The other one ends once
// that is refused for long: not because its first Binding took long, or the API server was not able to answer.
func TestAReplacementThatIsRefused(t *testing.T) {
	type attempt struct {
		takes     time.Duration // until the place is lost
		isRefused bool
		ends      bool
	}
	const short, long = 2501 * time.Millisecond, 6 * time.Second
	refusedBefore := reason.PlaceRefused.Text.FormatText(noon.Add(2*time.Hour).Format(time.RFC3339), "1h0m0s", "denied")
	for name, tc := range map[string]struct {
		change   []func(*corev1.Pod)
		attempts []attempt
	}{
		"again and again":                 {attempts: []attempt{{takes: short, isRefused: true}, {takes: short, isRefused: true}, {takes: short, isRefused: true, ends: true}}},
		"after a long Binding":            {attempts: []attempt{{takes: long, isRefused: true}, {takes: long, isRefused: true, ends: true}}},
		"under another leader, too":       {change: []func(*corev1.Pod){says(refusedBefore)}, attempts: []attempt{{takes: long, isRefused: true}, {takes: long, isRefused: true, ends: true}}},
		"after an accident":               {attempts: []attempt{{takes: long}, {takes: long, isRefused: true}, {takes: long, isRefused: true, ends: true}}},
		"by accidents alone, so it stays": {attempts: []attempt{{takes: long}, {takes: long}, {takes: long}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := newReplaced(t)
			again := l.member("again", append(tc.change, bornAt(3601))...)
			l.PreemptionHoldReason(again, false) // which reads what another leader wrote
			for i, a := range tc.attempts {
				if status := l.PreEnqueue(t.Context(), again); i == 0 && !status.IsSuccess() {
					t.Fatalf("it is not queued: %v", status)
				}
				cs, _, refused := l.aim(again)
				if refused != "" {
					t.Fatalf("attempt %d: it is not tried: %s", i, refused)
				}
				l.Permit(t.Context(), cs, again, "n1")
				*now = now.Add(a.takes)
				l.Unreserve(t.Context(), cs, again, "n1")
				if a.isRefused {
					l.RecordRefusal(again, "denied")
				} else {
					l.RecordLostPlace(again, "failed calling webhook")
				}
				if ends := slices.Contains(l.evicted(), "a"); ends != a.ends {
					t.Fatalf("attempt %d: the rest is ended: %t", i, ends)
				}
			}
		})
	}
}

// newReplaced has a gang of two that ran for an hour, and has just lost one of them.
func newReplaced(t *testing.T) (l *lab, now *time.Time) {
	t.Helper()
	l = newLab(t, 2)
	l.answers()
	now = l.keepsClock()
	*now = noon.Add(time.Hour)
	l.group("g", map[string]any{"minMember": int64(2)})
	first, lost := l.member("a", bornAt(0), boundAfter(5, "n0"), planned("a/2")), l.member("lost", bornAt(0), boundAfter(5, "n1"), planned("a/2"))
	l.podChanged(first)
	l.podChanged(lost)
	lost = lost.DeepCopy()
	lost.DeletionTimestamp = &metav1.Time{Time: *now}
	l.must(l.pods.Delete(lost))
	l.podGone(lost)
	l.infos[0] = nodeInfo(l.infos[0].Node(), first)
	return l, now
}
