package coscheduling

import (
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestWhoIsBusyIsAskedLessAndLess, and a webhook that always is refuses at last: the gang takes others then.
func TestWhoIsBusyIsAskedLessAndLess(t *testing.T) {
	const denies = "admission webhook \"guard.example.com\" denied the request: "
	webhook := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: denies + "later"}}
	}
	for name, tc := range map[string]struct {
		answer  error
		waits   []time.Duration
		evicted []string
	}{
		"the API server": {answer: apierrors.NewTooManyRequestsError("too many requests"),
			waits: []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}},
		"the API server, in words of a webhook": {answer: apierrors.NewServiceUnavailable("later: " + denies),
			waits: []time.Duration{1, 2, 4, 8, 16}},
		"a webhook":                    {answer: webhook(429, metav1.StatusReasonTooManyRequests), waits: []time.Duration{1, 2, 4, 8}, evicted: []string{"b", "c"}},
		"a webhook that sees conflict": {answer: webhook(409, metav1.StatusReasonConflict), waits: []time.Duration{1, 2, 4, 8}, evicted: []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 3)
			l.answers()
			now := noon
			l.now = func() time.Time { return now }
			l.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return action.(clienttesting.DeleteAction).GetName() == "a", nil, tc.answer
			})
			l.group("g", map[string]any{"minMember": int64(2)})
			l.running(0, "a", 1, ofPriority(-1))
			l.running(1, "b", 5, ofPriority(-1))
			l.running(2, "c", 60, ofPriority(-1))
			first := l.member("m0")
			l.member("m1")
			for round, wait := range tc.waits {
				if _, evicted, _ := l.refuse(first); len(evicted) > 0 || l.questions() == 0 {
					t.Fatalf("round %d: %v are evicted, %d questions", round, evicted, l.questions())
				}
				now = now.Add(wait*time.Second - time.Millisecond)
				if _, evicted, _ := l.refuse(first); len(evicted) > 0 || l.questions() > 0 {
					t.Fatalf("round %d: %v are evicted and %d questions asked before %d s are over", round, evicted, l.questions(), wait)
				}
				now = now.Add(time.Millisecond)
			}
			if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, tc.evicted) {
				t.Errorf("%v are evicted then, want %v", evicted, tc.evicted)
			}
			if left := l.gangs.stateOf(gangOf(first, l.groups.GetGroup(mustGroup(first)))).WriteBackoff(); (left == 0) != (tc.evicted != nil) {
				t.Errorf("it is put off for %s", left)
			}
		})
	}
}

// questions is how often the API server was asked of late whether a pod may leave.
func (l *lab) questions() (asked int) {
	for _, action := range l.client.Actions() {
		if action, ok := action.(clienttesting.DeleteAction); ok && len(action.GetDeleteOptions().DryRun) > 0 {
			asked++
		}
	}
	return asked
}
