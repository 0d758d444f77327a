package coscheduling

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// refuses has the API server foresee that it binds no pod of a name, and returns how often it was asked.
func (l *lab) refuses(name string) (asked *atomic.Int64) {
	asked, l.bindCheckTimeout = &atomic.Int64{}, bindCheckTimeout
	l.checkBinding = func(_ context.Context, _ kubernetes.Interface, pod *corev1.Pod, node string) string {
		if asked.Add(1); node == "" {
			l.Errorf("%s is asked about for no node", pod.Name)
		}
		if pod.Name == name {
			return "not this one"
		}
		return ""
	}
	return asked
}

// TestNobodyLeavesForAGangOfWhichOneWouldBeRefused: it is asked before, for each member, and the gang says why; again when it may evict again.
func TestNobodyLeavesForAGangOfWhichOneWouldBeRefused(t *testing.T) {
	l := newLab(t, 2)
	l.answers()
	now := l.keepsClock()
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "a", 1, ofPriority(-1))
	l.running(1, "b", 5, ofPriority(-1))
	first := l.member("m0")
	l.member("m1")
	asked := l.refuses("m1")
	if _, evicted, nominated := l.refuse(first); len(evicted) > 0 || len(nominated) > 0 {
		t.Fatalf("%v are evicted, and nominated %v", evicted, nominated)
	}
	if got := asked.Load(); got == 0 || got > 2 {
		t.Errorf("the API server is asked %d times for two members", got)
	}
	if tried := l.tried(); len(tried) == 0 {
		t.Error("no member is tried that would say why")
	}
	before := asked.Load()
	if _, evicted, _ := l.refuse(first); len(evicted) > 0 || asked.Load() > before || !strings.Contains(l.told, "not this one") {
		t.Errorf("it is told %q, %v are evicted, and asked %d times more", l.told, evicted, asked.Load()-before)
	}
	*now = now.Add(phase.BaseBackoff)
	if _, evicted, _ := l.refuse(first); len(evicted) > 0 || asked.Load() == before {
		t.Errorf("%v are evicted a minute later, when it is asked %d times more", evicted, asked.Load()-before)
	}
	l.refuses("")
	*now = now.Add(2 * phase.BaseBackoff)
	if _, evicted, nominated := l.refuse(first); len(evicted) != 2 || len(nominated) != 2 {
		t.Errorf("%v are evicted when nothing refuses any more, and nominated %v", evicted, nominated)
	}
}

// TestAPlaceThatIsNotAnsweredForHoldsNoGangBack: an API server that does not say whether it would bind the members is waited for once, for all of
// them together, and then the pods leave.
func TestAPlaceThatIsNotAnsweredForHoldsNoGangBack(t *testing.T) {
	const members = 40 // more than are asked for at a time
	l := newLab(t, members)
	l.answers()
	l.bindCheckTimeout = 50 * time.Millisecond
	l.group("g", map[string]any{"minMember": int64(members)})
	var first *corev1.Pod
	for i := range members {
		l.running(i, fmt.Sprint("low-", i), i+1, ofPriority(-1))
		first = l.member(fmt.Sprint("m", i))
	}
	var deadlines sync.Map
	l.checkBinding = func(ctx context.Context, _ kubernetes.Interface, _ *corev1.Pod, _ string) string {
		deadline, bounded := ctx.Deadline()
		deadlines.Store(deadline, bounded)
		<-ctx.Done()
		return ""
	}
	if _, evicted, _ := l.refuse(first); len(evicted) != members {
		t.Errorf("%d pods leave, want %d", len(evicted), members)
	}
	count := 0
	for range deadlines.Range {
		count++
	}
	if count != 1 {
		t.Errorf("the members have %d deadlines, want one for all", count)
	}
}

// TestNobodyIsToldToLeaveForAGangOfWhichOneWouldBeRefused either, where those that were to leave have time to save their work.
func TestNobodyIsToldToLeaveForAGangOfWhichOneWouldBeRefused(t *testing.T) {
	l := newLab(t, 2)
	l.answers()
	l.keepsClock()
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "a", 1, ofPriority(-1), polite("5m"))
	l.running(1, "b", 5, ofPriority(-1))
	first := l.member("m0")
	l.member("m1")
	l.refuses("m0")
	if _, evicted, nominated := l.refuse(first); len(evicted) > 0 || len(nominated) > 0 || len(l.noticed()) > 0 {
		t.Errorf("%v are evicted, %v told, and nominated %v", evicted, l.noticed(), nominated)
	}
	if !l.preemptions.IsEmpty() {
		t.Error("it is in mind still that they are to leave")
	}
}
