package coscheduling

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// TestATellingThatFailsIsTriedOnceMore: nobody leaves who was not told, and nothing is kept of it.
func TestATellingThatFailsIsTriedOnceMore(t *testing.T) {
	l, now := newPolite(t)
	failures := 1
	l.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := string(action.(clienttesting.PatchAction).GetPatch())
		if !strings.Contains(patch, names.AnnotationPreemptionNotice) || failures == 0 {
			return false, nil, nil
		}
		failures--
		return true, nil, errors.New("lost")
	})
	if _, evicted := l.tries("m0"); len(evicted) > 0 || len(l.noticed()) > 0 || !l.preemptions.IsEmpty() {
		t.Fatalf("%v are evicted, and %v are to leave", evicted, l.noticed())
	}
	*now = now.Add(2 * phase.BaseBackoff)
	if _, evicted := l.tries("m0"); len(evicted) > 0 || !slices.Equal(l.noticed(), []string{"asks", "other"}) {
		t.Errorf("%v are evicted, and %v told then", evicted, l.noticed())
	}
}

// TestNoneLeavesForAGhost: kube-scheduler evicts beside its cycles, so the pod that others are told to leave for may be gone by then, or before
// its nomination is known. They are told that they may stay, at the latest when their time is over.
func TestNoneLeavesForAGhost(t *testing.T) {
	l := newLab(t, 1)
	now := l.keepsClock()
	l.obeys()
	l.TakeOver()
	victim := l.running(0, "victim", 9, ofPriority(-1), polite("1m"))
	ghost := l.member("ghost", func(pod *corev1.Pod) { pod.Labels = nil })
	l.goes("ghost") // deleted while kube-scheduler prepares the eviction
	if stays, err := l.NotifyVictim(t.Context(), ghost, victim, []*corev1.Pod{victim}); !stays || err != nil {
		t.Fatalf("it leaves at once: %v", err)
	}
	if told := l.noticed(); len(told) > 0 {
		t.Errorf("%v are told to leave for a pod that was gone by then", told)
	}
	for range 10 { // whenever it is looked at
		*now = now.Add(10 * time.Minute)
		l.requeuePreemptor(podAsPreemptor(ghost).Key())
	}
	if told := l.noticed(); len(told) > 0 {
		t.Errorf("%v are told to leave for a pod that has been gone for %s", told, now.Sub(noon))
	}
}

// TestThoseStayWhoseSuccessorGoesBeforeItIsKnown that others leave for it: as soon as it is gone, or when it is looked again at the latest.
func TestThoseStayWhoseSuccessorGoesBeforeItIsKnown(t *testing.T) {
	for name, ends := range map[string]func(l *lab, now *time.Time, ghost *corev1.Pod){
		"it is deleted": func(l *lab, _ *time.Time, _ *corev1.Pod) { l.goes("ghost") },
		"it is deleted, and not told": func(l *lab, now *time.Time, ghost *corev1.Pod) {
			l.must(l.pods.Delete(ghost))
			*now = now.Add(2 * time.Minute)
		},
		"it finds another place": func(l *lab, _ *time.Time, _ *corev1.Pod) { l.changes("ghost", boundTo("n0")) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1)
			now := l.keepsClock()
			l.obeys()
			l.TakeOver()
			victim := l.running(0, "victim", 9, ofPriority(-1), polite("1m"))
			ghost := l.member("ghost", func(pod *corev1.Pod) { pod.Labels = nil })
			if stays, err := l.NotifyVictim(t.Context(), ghost, victim, []*corev1.Pod{victim}); !stays || err != nil || len(l.noticed()) != 1 {
				t.Fatalf("it leaves at once: %v", err)
			}
			ends(l, now, ghost)
			l.requeuePreemptor(podAsPreemptor(ghost).Key())
			if told := l.noticed(); len(told) > 0 {
				t.Errorf("%v are told to leave", told)
			}
		})
	}
}
