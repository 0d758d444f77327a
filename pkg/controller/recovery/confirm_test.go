package recovery

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestANodeIsCalledDead only if its lease is still the one of which the silence is known, however long the reading before that took.
func TestANodeIsCalledDead(t *testing.T) {
	shutDown := corev1.Taint{Key: taintShutDown, Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		passes  time.Duration // until it is asked, since another node was heard
		renewed bool
		taints  []corev1.Taint
		want    error
	}{
		"it is silent":                                {},
		"it has spoken since":                         {renewed: true, want: errSignOfLife},
		"nobody is heard any more":                    {passes: staleAfter + time.Second, want: errStale},
		"nobody is heard, and it has spoken":          {passes: staleAfter + time.Second, renewed: true, want: errStale},
		"nobody is heard, and its cloud calls it off": {passes: staleAfter + time.Second, taints: []corev1.Taint{shutDown}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}}
			live := fake.NewClientBuilder().WithObjects(lease).Build()
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
				t.Fatal(err)
			}
			clock := clocktesting.NewFakePassiveClock(now)
			r := &Reconciler{Live: live, Signs: &Signs{Clock: clock}}
			r.Signs.RecordLease("other", "1")
			r.Signs.RecordLease("n", lease.ResourceVersion)
			clock.SetTime(now.Add(staleAfter - time.Second))
			r.Signs.RecordLease("other", "2")
			clock.SetTime(clock.Now().Add(tc.passes))
			if tc.renewed {
				if err := live.Update(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: tc.taints}}
			if err := r.confirmSilent(t.Context(), node); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}
