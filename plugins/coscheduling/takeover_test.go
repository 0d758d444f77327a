package coscheduling

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// TestANewLeaderGoesOn with what the one before it has told: nobody has more time, nobody is told twice, and who is not waited for
// any more stays.
func TestANewLeaderGoesOn(t *testing.T) {
	tests := map[string]struct {
		change  func(*lab)
		after   time.Duration
		waits   bool
		evicted []string
		told    []string
	}{
		"in time":                    {after: 30 * time.Second, waits: true, told: []string{"asks", "other"}},
		"when the time was over":     {after: time.Hour, evicted: []string{"asks", "other"}, told: []string{"asks", "other"}},
		"when one had answered":      {change: func(l *lab) { l.changes("asks", saves) }, evicted: []string{"asks", "other"}, told: []string{"asks", "other"}},
		"when nobody waits any more": {change: func(l *lab) { l.must(l.pods.Delete(l.pod("m0"))); l.must(l.pods.Delete(l.pod("m1"))) }},
		"when a user wrote there": {change: func(l *lab) {
			l.changes("asks", func(pod *corev1.Pod) {
				told, _ := notice.FromPod(pod)
				told.Until = noon.AddDate(1, 0, 0)
				pod.Annotations[names.AnnotationPreemptionNotice] = told.AnnotationText()
			})
		}, after: names.UsualCheckpointGrace, evicted: []string{"asks", "other"}, told: []string{"asks", "other"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, now := newPolite(t)
			l.tries("m0")
			l.preemptions, l.gangs = &preemption.Notices{}, l.newGangs() // the leader dies
			if tc.change != nil {
				tc.change(l)
			}
			if name != "when a user wrote there" {
				*now = noon.Add(tc.after)
			}
			l.TakeOver()
			l.TakeOver() // for another profile
			*now = noon.Add(tc.after)
			if !slices.Equal(l.noticed(), tc.told) {
				t.Errorf("%v are to leave, want %v", l.noticed(), tc.told)
			}
			if l.pod("m0") == nil {
				return
			}
			node, evicted := l.tries("m0")
			if !slices.Equal(evicted, tc.evicted) || node == "" || strings.Contains(l.told, "save their work") != tc.waits {
				t.Errorf("%v are evicted for a place on %q, and it is told %q", evicted, node, l.told)
			}
		})
	}
}

// TestANewLeaderWaitsForNobodyOnNoNode: users may write a node that there is not, and what one is told who saves its work.
func TestANewLeaderWaitsForNobodyOnNoNode(t *testing.T) {
	l, _ := newPolite(t)
	l.tries("m0")
	l.noticed()
	l.changes("asks", func(pod *corev1.Pod) {
		told, _ := notice.FromPod(pod)
		told.Until, pod.Spec.NodeName = noon.AddDate(1, 0, 0), "no-such-node"
		pod.Annotations[names.AnnotationPreemptionNotice] = told.AnnotationText()
	})
	l.goes("other")
	l.preemptions, l.gangs = &preemption.Notices{}, l.newGangs() // the leader dies
	l.TakeOver()
	if until, _ := l.noticeStatus(preemptorKey(gangOf(l.pod("m0"), l.groups.GetGroup(mustGroup(l.pod("m0")))))); !until.IsZero() {
		t.Errorf("the gang waits until %s", until)
	}
}
