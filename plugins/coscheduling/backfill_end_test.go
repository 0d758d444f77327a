package coscheduling

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/backfill"
)

// TestAPromiseThatLapsesEnds, so that those whom it kept out are tried: nobody has renewed it, as the scheduler had no time for its job.
func TestAPromiseThatLapsesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, clock := keeping(t, 3)
		begin := *clock
		var told, passed atomic.Int64 // timers look at the clock, too
		l.now = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
		l.startReservations.OnRelease(func(backfill.Release) { told.Add(1) })
		gang := l.gangOf("g", 2, 5)
		job := l.backfillPosition(gang).Job
		if l.refuse(gang); l.startReservations.CurrentSet().ForJob(job) == nil {
			t.Fatal("nothing is promised")
		}
		passed.Store(int64(20*time.Minute + 10*time.Minute)) // when it was to start, and as long as it counts after that
		time.Sleep(backfill.RenewInterval)
		synctest.Wait()
		if l.startReservations.CurrentSet().ForJob(job) != nil || told.Load() != 1 {
			t.Errorf("it is promised still: %v; %d changes are told, want one", l.startReservations.CurrentSet().ForJob(job) != nil, told.Load())
		}
	})
}

// TestAPromiseIsLookedAfter: it ends within a renewal when nobody of its job waits any more, whatever the scheduler is told.
func TestAPromiseIsLookedAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		what func(l *lab, member *corev1.Pod) *corev1.Pod
		want bool
	}{
		"it waits":                  {func(_ *lab, member *corev1.Pod) *corev1.Pod { return member }, true},
		"it leaves its gang":        {func(_ *lab, member *corev1.Pod) *corev1.Pod { member.Labels = nil; return member }, false},
		"it is to be deleted":       {func(_ *lab, member *corev1.Pod) *corev1.Pod { leaving(member); return member }, false},
		"it is gone without a word": {func(*lab, *corev1.Pod) *corev1.Pod { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := keeping(t, 3)
				gang := l.gangOf("g", 2, 5)
				job := l.backfillPosition(gang).Job
				if l.refuse(gang); l.startReservations.CurrentSet().ForJob(job) == nil {
					t.Fatal("nothing is promised")
				}
				for _, member := range l.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"}) {
					l.must(l.pods.Delete(member))
					if changed := tc.what(l, member.DeepCopy()); changed != nil {
						l.must(l.pods.Add(changed))
					}
				}
				time.Sleep(backfill.RenewInterval + time.Second)
				synctest.Wait()
				if promised := l.startReservations.CurrentSet().ForJob(job) != nil; promised != tc.want || tc.want != (len(l.tried()) > 0) {
					t.Errorf("it is promised: %v, want %v; tried %v", promised, tc.want, l.tried())
				}
				l.startReservations.EndReservation(job)
				time.Sleep(2 * backfill.RenewInterval) // ends what looks after it
			})
		})
	}
}

func promisesFor(l *lab, horizon time.Duration) *backfill.StartReservations {
	promises := backfill.NewStartReservations(l.now)
	promises.ExtendHorizon(horizon)
	promises.SetPositionFunc(l.backfillPosition)
	return promises
}

// TestAPromiseEnds when its job has its places, or does not wait for them any more.
func TestAPromiseEnds(t *testing.T) {
	tests := map[string]struct {
		what func(l *lab, gang *corev1.Pod, clock *time.Time)
		want string
	}{
		"nothing has happened": {func(l *lab, gang *corev1.Pod, clock *time.Time) {
			*clock = clock.Add(time.Minute)
			l.refuse(gang)
		}, "2 in 19 min"},
		"who should have left is there still": {func(l *lab, gang *corev1.Pod, clock *time.Time) {
			*clock = clock.Add(15 * time.Minute)
			l.refuse(gang)
		}, "2 in 15 min"},
		"it has its places": {func(l *lab, _ *corev1.Pod, _ *time.Time) {
			for i, pod := range l.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"}) {
				l.Permit(l.Context(), framework.NewCycleState(), pod, fmt.Sprintf("n%d", i))
			}
		}, ""},
		"its pods are gone": {func(l *lab, _ *corev1.Pod, _ *time.Time) {
			for _, pod := range l.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"}) {
				l.must(l.pods.Delete(pod))
				l.podGone(pod)
			}
		}, ""},
		"its PodGroup is gone": {func(l *lab, gang *corev1.Pod, _ *time.Time) {
			l.must(l.groups.PodGroups.GetIndexer().Replace(nil, ""))
			l.postFilter(framework.NewCycleState(), gang)
		}, ""},
		"a member is gone": {func(l *lab, gang *corev1.Pod, _ *time.Time) {
			other := l.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"})
			for _, pod := range other {
				if pod.UID != gang.UID {
					l.must(l.pods.Delete(pod))
				}
			}
			l.refuse(gang)
		}, ""},
		"another plugin keeps it out": {func(l *lab, gang *corev1.Pod, clock *time.Time) {
			cs := framework.NewCycleState()
			cs.Write(stateKey, &attempt{isStarting: true})
			l.postFilter(cs, gang)
			*clock = clock.Add(time.Minute)
			l.refuse(gang) // nor is it promised anything again at once
		}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, clock := keeping(t, 3)
			gang := l.gangOf("g", 2, 5)
			l.refuse(gang)
			if got := l.promisedTo(gang); got != "2 in 20 min" {
				t.Fatalf("promised %q", got)
			}
			job := l.backfillPosition(gang).Job
			tc.what(l, gang, clock)
			got := ""
			if promise := l.startReservations.CurrentSet().ForJob(job); promise != nil {
				got = fmt.Sprintf("%d in %.0f min", len(promise.Places), promise.At.Sub(l.now()).Minutes())
			}
			if got != tc.want {
				t.Errorf("promised %q, want %q", got, tc.want)
			}
		})
	}
}
