package coscheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

func nominatedFor(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{NominatedNodeName: node}}
}

// TestAMemberTooManyTakesNoPlaces: of six members of which four are enough, room was made for four. Another one that finds no
// place must not have the four give up theirs.
func TestAMemberTooManyTakesNoPlaces(t *testing.T) {
	a, b, spare := nominatedFor("a", "n1"), nominatedFor("b", "n2"), nominatedFor("c", "")
	waiting := []*corev1.Pod{spare, a, b}
	for missing, want := range map[int]bool{1: true, 2: true, 3: false} {
		if got := isSpare(spare, waiting, missing); got != want {
			t.Errorf("with %d missing: %v, want %v", missing, got, want)
		}
	}
	if isSpare(a, waiting, 2) || isSpare(spare, []*corev1.Pod{spare}, 0) {
		t.Error("one that has a place, or is the only one, is called spare")
	}
	if first := placement.NominatedFirst(waiting); first[0] != a || first[1] != b || first[2] != spare || waiting[0] != spare {
		t.Errorf("the order is %v, and of the list %v", first, waiting)
	}
}

// TestPodsThatAskAsAWholeAreNotAlike: the room for one would be taken for the room for the other, also of another user.
func TestPodsThatAskAsAWholeAreNotAlike(t *testing.T) {
	asking := func(cpu string) *corev1.Pod {
		pod := nominatedFor("a", "")
		if cpu != "" {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
		}
		return pod
	}
	if placement.HaveSameDemand(asking("1"), asking("10000")) || placement.HaveSameDemand(asking(""), asking("1")) || !placement.HaveSameDemand(asking("1"), asking("1")) || !placement.HaveSameDemand(asking(""), asking("")) {
		t.Error("what a pod asks as a whole does not count")
	}
}
