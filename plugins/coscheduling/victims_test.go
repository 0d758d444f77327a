package coscheduling

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// ofApp has a pod belong to an application that a PodDisruptionBudget knows, and ask for so many GPUs.
func ofApp(app string, gpus int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		amount := *resource.NewQuantity(gpus, resource.DecimalSI)
		pod.Labels["app"] = app
		pod.Spec.Containers[0].Resources.Limits[names.ResourceGPU] = amount
		if pod.Spec.Containers[0].Resources.Requests != nil {
			pod.Spec.Containers[0].Resources.Requests[names.ResourceGPU] = amount
		}
	}
}

// TestABudgetIsSpentOnWhomItHelps: a budget that allows one disruption of two replicas lets a gang evict the one whose leaving makes room.
// It must not be used up in advance by the replica that has lost the least, beside which somebody stays who may not leave: the gang
// then waits for ever for room that it may make.
func TestABudgetIsSpentOnWhomItHelps(t *testing.T) {
	for _, allowed := range []int32{2, 1} {
		spend(t, allowed)
	}
}

func spend(t *testing.T, allowed int32) {
	l := newLab(t, 3)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(2)})
	l.budget("svc", allowed)
	l.running(0, "young", 5, ofPriority(-1), ofApp("svc", 4))
	l.running(0, "strong", 60, ofApp("other", 4)) // of the gang's own priority
	l.running(1, "old", 60, ofPriority(-1), ofApp("svc", 4))
	m := l.member("a")
	l.member("b")
	if _, evicted, _ := l.refuse(m); !slices.Equal(evicted, []string{"old"}) {
		t.Errorf("a budget allows %d: %v are evicted, want old: it is allowed, and the gang has n1 and n2 then", allowed, evicted)
	}
}

// TestWhoIsResizedLeavesAllThatItHolds: a victim whose resources are being made smaller in place still holds what its node has allocated to it,
// as NodeInfo counts it. All of that is free when it leaves, so that a gang evicts it as it does any other.
func TestWhoIsResizedLeavesAllThatItHolds(t *testing.T) {
	for _, resized := range []bool{false, true} {
		l := newLab(t, 2)
		l.answers()
		l.group("g", map[string]any{"minMember": int64(2)})
		cores := func(amount string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
		}
		for i := range l.infos {
			l.infos[i].Node().Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("100")
		}
		l.running(0, "low", 5, ofPriority(-1), func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cores("90")}
			if resized {
				pod.Spec.Containers[0].Resources.Requests = cores("30")
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, AllocatedResources: cores("90"),
					Resources: &corev1.ResourceRequirements{Requests: cores("90")}}}
			}
		})
		l.running(1, "idle", 5, ofPriority(-1), func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cores("1")}
		})
		wants := func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cores("80")}
		}
		m := l.member("a", wants)
		l.member("b", wants)
		if _, evicted, _ := l.refuse(m); !slices.Equal(evicted, []string{"low"}) {
			t.Errorf("resized: %v: %v are evicted, want low", resized, evicted)
		}
	}
}

// TestWhoDoesNotBorrowHasTimeToSaveItsWork: a gang that is guaranteed its GPUs waits for none of those who borrow them (docs/preemption.md). Those who
// leave for it by their priority, such as pods of its own namespace in the way of whole nodes, are told first, as they ask for.
func TestWhoDoesNotBorrowHasTimeToSaveItsWork(t *testing.T) {
	for _, guaranteed := range []int64{0, 32} {
		l := newLab(t, 4)
		l.keepsClock()
		l.obeys()
		l.TakeOver()
		l.group("g", map[string]any{"minMember": int64(2)})
		for node := range 4 { // 28 of 32 GPUs are free, and no whole node
			l.running(node, fmt.Sprint("low-", node), 5+node, ofPriority(-1), ofApp("low", 1), polite("1m"))
		}
		l.member("a")
		l.member("b")
		if guaranteed > 0 {
			l.share(quotaOf("ns", guaranteed, 0))
		}
		_, evicted := l.tries("a")
		if told := l.noticed(); len(evicted) > 0 || len(told) != 2 {
			t.Errorf("guaranteed %d GPUs: %v are evicted at once and %v are told, want two told", guaranteed, evicted, told)
		}
	}
}

// TestWhoBorrowsLeavesFirstWhateverThePriorities: docs/gangs.md: first those who borrow, then the lowest priority, also where priorities are as low or as
// high as Kubernetes allows.
func TestWhoBorrowsLeavesFirstWhateverThePriorities(t *testing.T) {
	if borrower, other := victimRank(true, 1_000_000_000), victimRank(false, -2_000_000_000); borrower >= other {
		t.Errorf("one that borrows counts as %d and comes after one that does not, as %d", borrower, other)
	}
}
