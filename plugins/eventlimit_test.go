package plugins

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"g8s.host/gpu-scheduler/test/upstream"
)

// profileWithEvents is a profile that has a recorder alone.
type profileWithEvents struct {
	framework.Framework
	recorder events.EventRecorderLogger
}

func (p profileWithEvents) EventRecorder() events.EventRecorderLogger { return p.recorder }

func TestOnePodTellsOfItselfWithinBounds(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	recorder := events.NewFakeRecorder(10_000)
	fails := func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, _ *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
		profile.EventRecorder().Eventf(info.Pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "no")
	}
	handle := limitEvents(fails, clock)
	told := func(uid string, attempts int) int {
		before := len(recorder.Events)
		pod := &corev1.Pod{}
		pod.UID = types.UID(uid)
		for range attempts {
			upstream.FailBy(t, handle, profileWithEvents{recorder: recorder}, pod, nil)
		}
		return len(recorder.Events) - before
	}
	if got := told("restless", 500); got != eventsAtOnce {
		t.Errorf("%d events of 500 attempts at once, want %d", got, eventsAtOnce)
	}
	if got := told("other", 3); got != 3 {
		t.Errorf("%d events of 3 attempts of another pod, want 3", got)
	}
	clock.SetTime(clock.Now().Add(3 * eventEach))
	if got := told("restless", 500); got != 3 {
		t.Errorf("%d events after %s, want 3", got, 3*eventEach)
	}
	for i := range quietPods {
		told(fmt.Sprint("many-", i), 1)
	}
	if got := told("restless", 1); got != 1 {
		t.Errorf("%d events of a pod that is forgotten, want 1", got)
	}
}
