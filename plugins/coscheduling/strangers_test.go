package coscheduling

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
)

// looked counts how many pods an index gives out.
type looked struct {
	cache.Indexer
	pods int
}

func (l *looked) ByIndex(index, value string) ([]any, error) {
	objects, err := l.Indexer.ByIndex(index, value)
	l.pods += len(objects)
	return objects, err
}

func (l *looked) IndexKeys(index, value string) ([]string, error) {
	keys, err := l.Indexer.IndexKeys(index, value)
	l.pods += len(keys)
	return keys, err
}

// TestStrangersDoNotCost: what an attempt of a pod costs, and each thing that happens to one, must not grow with the pods of other owners
// that carry the same label, or one user with a label of a PodGroup on thousands of Jobs has each of them cost all of them.
func TestStrangersDoNotCost(t *testing.T) {
	const strangers, rounds = 5_000, 20
	for name, what := range map[string]func(l *lab, m *corev1.Pod, group *podgroup.Group){
		"an attempt":                       func(l *lab, m *corev1.Pod, _ *podgroup.Group) { l.aim(m) },
		"an attempt that has others tried": func(l *lab, m *corev1.Pod, group *podgroup.Group) { l.activateSiblings(m, group) },
		"a timer": func(l *lab, m *corev1.Pod, group *podgroup.Group) {
			l.activatePending(gangOf(m, group), group, anyMember)
		},
		"a promise that is renewed": func(l *lab, m *corev1.Pod, _ *podgroup.Group) { l.pendingPodOf("", m) },
		"the news that it is bound": func(l *lab, m *corev1.Pod, _ *podgroup.Group) {
			bound := m.DeepCopy()
			bound.Spec.NodeName = "n0"
			l.podChanged(bound)
		},
		"the news that it is gone": func(l *lab, m *corev1.Pod, _ *podgroup.Group) {
			l.must(l.pods.Delete(m))
			l.podGone(m)
			l.must(l.pods.Add(m))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1)
			l.keepsClock()
			l.group("g", map[string]any{"minMember": int64(2)})
			for i := range strangers {
				l.member(fmt.Sprint("s", i), ownedBy(types.UID(fmt.Sprint("job-", i))))
			}
			m := l.member("m", ownedBy("mine"))
			group := l.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"})
			index := &looked{Indexer: l.pods}
			l.pods = index
			l.aim(m) // they are counted once, to say that they are there
			index.pods = 0
			for range rounds {
				what(l, m, group)
			}
			if index.pods > 10*rounds {
				t.Errorf("%d times among %d strangers looks at %d pods", rounds, strangers, index.pods)
			}
		})
	}
}

// TestAGangIsOfOneOwner by the index as well, unless its PodGroup gathers several.
func TestAGangIsOfOneOwner(t *testing.T) {
	for _, several := range []bool{false, true} {
		l := newLab(t, 1)
		l.group("g", map[string]any{"minMember": int64(3)}, func(group *unstructured.Unstructured) {
			if several {
				group.SetAnnotations(map[string]string{names.AnnotationSeveralOwners: names.True})
			}
		})
		first := l.member("a", ownedBy("one"))
		l.member("b", ownedBy("one"))
		l.member("c", ownedBy("two"))
		l.member("d", func(pod *corev1.Pod) { pod.OwnerReferences = nil })
		group := l.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"})
		m := l.membersOf(first, group)
		waiting, strangers := 2, 2
		if several {
			waiting, strangers = 4, 0
		}
		if len(m.Waiting) != waiting || m.OtherOwners != strangers {
			t.Errorf("several owners: %v: %d members and %d strangers, want %d and %d", several, len(m.Waiting), m.OtherOwners, waiting, strangers)
		}
	}
}
