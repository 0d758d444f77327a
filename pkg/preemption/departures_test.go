package preemption

import (
	"testing"
	"time"
)

// TestAPodThatStaysIsAskedAgain after a while, which is longer each time, and with no limit to what is remembered.
func TestAPodThatStaysIsAskedAgain(t *testing.T) {
	d, now := &Departures{}, time.Now()
	for _, long := range []time.Duration{firstRefusalBackoff, 2 * firstRefusalBackoff, 4 * firstRefusalBackoff} {
		d.RecordRefusal("a", now)
		if now = now.Add(long - time.Second); !d.RefusedPods(now)["a"] {
			t.Errorf("it is asked again before %s are over", long)
		}
		if now = now.Add(2 * time.Second); d.RefusedPods(now)["a"] {
			t.Errorf("it is not asked again after %s", long)
		}
	}
	now = now.Add(3 * maxRefusalBackoff)
	if d.RecordRefusal("b", now); len(d.refusals) != 1 {
		t.Errorf("%d are remembered, want the last one", len(d.refusals))
	}
}
