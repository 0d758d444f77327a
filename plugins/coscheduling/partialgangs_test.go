package coscheduling

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestHalvesAreThoseThatWaitBesideAPart: neither the members of a gang that is whole, nor those of one that has no place.
func TestHalvesAreThoseThatWaitBesideAPart(t *testing.T) {
	l := newLab(t, 6)
	for _, group := range []string{"half", "whole", "waits", "gone"} {
		l.group(group, map[string]any{"minMember": int64(2)})
	}
	of := func(group string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Labels[names.LabelPodGroup] = group
			ownedBy(types.UID(group))(pod)
		}
	}
	l.member("half-0", of("half"), boundTo("n0"))
	l.member("half-1", of("half"))
	l.member("half-2", of("half"), func(pod *corev1.Pod) { pod.Spec.SchedulerName = "another" })
	l.member("whole-0", of("whole"), boundTo("n1"))
	l.member("whole-1", of("whole"), boundTo("n2"))
	l.member("whole-2", of("whole"))
	l.member("waits-0", of("waits"))
	l.member("gone-0", of("gone"), boundTo("nowhere"))
	l.member("gone-1", of("gone"))
	l.member("unknown-0", of("unknown"), boundTo("n3"))
	l.member("unknown-1", of("unknown"))
	var got []string
	for _, pod := range l.PendingPartialGangs(names.SchedulerName) {
		got = append(got, pod.Name)
	}
	if want := "[half-1]"; fmt.Sprint(got) != want {
		t.Errorf("%v wait beside a part, want %s", got, want)
	}
}
