package coscheduling

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/queue"
	"g8s.host/gpu-scheduler/test/fixture"
)

// line is a queue as kube-scheduler's: a heap that is told of what is put in and taken out, and of nothing else.
type line struct {
	of   []fwk.QueuedEntityInfo
	less func(a, b fwk.QueuedEntityInfo) bool
}

func (l *line) Len() int           { return len(l.of) }
func (l *line) Less(i, j int) bool { return l.less(l.of[i], l.of[j]) }
func (l *line) Swap(i, j int)      { l.of[i], l.of[j] = l.of[j], l.of[i] }
func (l *line) Push(x any)         { l.of = append(l.of, x.(fwk.QueuedEntityInfo)) }
func (l *line) Pop() any {
	last := l.of[len(l.of)-1]
	l.of = l.of[:len(l.of)-1]
	return last
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func queued(t *testing.T, pod *corev1.Pod, at time.Time) fwk.QueuedEntityInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info, QueueingParams: framework.QueueingParams{Timestamp: at, InitialAttemptTimestamp: &at}}
}

// TestTheQueueStaysInOrder while gangs begin, fail and lose their PodGroups: each pod that is taken out comes before all that
// are left, by what the queue compares.
func TestTheQueueStaysInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := newLab(t, 2)
	var gangs []gang
	for i := range 8 {
		name := fmt.Sprint("g", i)
		l.group(name, map[string]any{"minMember": int64(5)}, func(g *unstructured.Unstructured) {
			g.SetCreationTimestamp(metav1.NewTime(noon.Add(time.Duration(random.IntN(60)) * time.Minute)))
		})
		gangs = append(gangs, gang{group: mustGroup(l.member(name, func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = name })), owner: "job"})
	}
	q := &line{less: l.Less}
	for i := range 400 {
		pod := l.member(fmt.Sprint("p-", i), func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = gangs[i%len(gangs)].group.Name })
		if i%5 == 0 {
			pod = fixture.Pod(fmt.Sprint("single-", i)).Obj()
		}
		l.PreEnqueue(t.Context(), pod)
		heap.Push(q, queued(t, pod, noon.Add(time.Duration(random.IntN(60))*time.Minute)))
	}
	for q.Len() > 0 {
		g := gangs[random.IntN(len(gangs))]
		switch random.IntN(4) {
		case 0:
			l.gangs.movePod(g, "somebody-"+g.owner, "n0", phase.WaitingStage)
		case 1:
			l.gangs.changeState(g, func(s *phase.Gang) { s.RecordFailure(noon.Add(time.Duration(random.IntN(60))*time.Minute), 0) })
		case 2:
			l.gangs.forgetPod("somebody-" + g.owner)
		case 3:
			l.gangs.recordSuccess(g)
		}
		next, ok := heap.Pop(q).(fwk.QueuedEntityInfo)
		if !ok {
			t.Fatal("no pod")
		}
		for _, other := range q.of {
			if l.Less(other, next) {
				t.Fatalf("%s is taken out before %s", queuedPod(next).Name, queuedPod(other).Name)
			}
		}
	}
}

// TestAChangeOfAPodGroupLetsOthersPass: its members, of which there may be thousands, are all tried again, and stand behind
// whoever comes meanwhile. After that they stand where they stood.
func TestAChangeOfAPodGroupLetsOthersPass(t *testing.T) {
	l := newLab(t, 1)
	l.group("g", map[string]any{"minMember": int64(2)})
	member := l.member("m")
	now := noon
	l.now = func() time.Time { return now }
	first := l.mayActivateAll(mustGroup(member), 200)
	if now = noon.Add(time.Second); !first || l.mayActivateAll(mustGroup(member), 200) {
		t.Error("it is not woken once within its rest")
	}
	l.PreEnqueue(t.Context(), member)
	for after, first := range map[time.Duration]bool{-time.Second: false, time.Second: false, 3 * time.Second: true} {
		other := queued(t, fixture.Pod("other").Obj(), noon.Add(after))
		if got := l.Less(queued(t, member, noon.Add(-time.Hour)), other); got != first {
			t.Errorf("the member goes before a pod that comes %s after the change: %t, want %t", after, got, first)
		}
	}
}

// TestTurnsAreForgotten with the pods that they are of, when the queue has surely heard of it: till then it has them in order by their
// turns, and not by what has become of their gangs.
func TestTurnsAreForgotten(t *testing.T) {
	l := newLab(t, 1)
	now := l.keepsClock()
	l.group("g", map[string]any{"minMember": int64(2)})
	gone, bound := l.member("gone"), l.member("bound")
	single := fixture.Pod("single").Obj()
	for _, pod := range []*corev1.Pod{gone, bound, single} {
		if status := l.PreEnqueue(t.Context(), pod); !status.IsSuccess() {
			t.Errorf("%s is kept from the queue: %v", pod.Name, status)
		}
	}
	if kept, _ := l.queuePositions.CountKept(); kept != 2 {
		t.Errorf("%d turns are kept, want those of the two members", kept)
	}
	other := queued(t, single, noon)
	before := l.Less(queued(t, gone, noon), other)
	l.podGone(gone)
	l.gangs.changeState(gang{group: types.NamespacedName{Namespace: "ns", Name: "g"}, owner: "job"}, func(s *phase.Gang) { s.RecordFailure(noon.Add(time.Hour), 0) })
	if l.Less(queued(t, gone, noon), other) != before {
		t.Error("a pod that may be in the queue still has another position as it is deleted")
	}
	bound.Spec.NodeName = "n0"
	for range 100 {
		l.podChanged(bound)
	}
	if kept, gone := l.queuePositions.CountKept(); kept != 2 || gone != 2 {
		t.Errorf("%d turns are kept, and %d pods are to be forgotten, want 2", kept, gone)
	}
	*now = noon.Add(queue.Retention)
	l.podGone(single)
	if kept, gone := l.queuePositions.CountKept(); kept+gone != 0 {
		t.Errorf("%d turns are left, and %d pods are to be forgotten", kept, gone)
	}
}

// TestTheQueueAsksOneProfile about the pods of all: those of another one stand by what that noted of their gang.
func TestTheQueueAsksOneProfile(t *testing.T) {
	l, asked := newLab(t, 1), newLab(t, 1)
	asked.queuePositions, asked.groups = l.queuePositions, l.groups
	l.group("g", map[string]any{"minMember": int64(2)}, func(g *unstructured.Unstructured) { g.SetCreationTimestamp(metav1.NewTime(noon)) })
	member := l.member("m")
	l.gangs.movePod(gang{group: types.NamespacedName{Namespace: "ns", Name: "g"}, owner: "job"}, "sibling", "n0", phase.WaitingStage)
	other := fixture.Pod("other").Obj()
	l.PreEnqueue(t.Context(), member)
	asked.PreEnqueue(t.Context(), other)
	if !asked.Less(queued(t, member, noon), queued(t, other, noon.Add(-time.Hour))) {
		t.Error("a pod that comes alone goes before the rest of a gang that has begun")
	}
}

// TestMembersAreTriedInTheOrderOfTheirPlan, and those of two gangs of one second do not mix.
func TestMembersAreTriedInTheOrderOfTheirPlan(t *testing.T) {
	l := newLab(t, 1)
	q := &line{less: l.Less}
	for _, group := range []string{"g", "h"} {
		l.group(group, map[string]any{"minMember": int64(12)}, func(g *unstructured.Unstructured) { g.SetCreationTimestamp(metav1.NewTime(noon)) })
		for i := range 12 {
			pod := l.member(fmt.Sprintf("%d-%s", i, group), of(group), func(pod *corev1.Pod) {
				if group == "g" { // those of an Indexed Job have indices, and names by chance
					pod.Name = fmt.Sprintf("g-%d", 99-i)
					pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i)}
				}
			})
			l.PreEnqueue(t.Context(), pod)
			heap.Push(q, queued(t, pod, noon))
		}
	}
	var got []string
	for q.Len() > 0 {
		got = append(got, queuedPod(heap.Pop(q).(fwk.QueuedEntityInfo)).Name)
	}
	if want := "g-99 g-98 g-97 g-96 g-95 g-94 g-93 g-92 g-91 g-90 g-89 g-88 0-h 1-h 2-h 3-h 4-h 5-h 6-h 7-h 8-h 9-h 10-h 11-h"; strings.Join(got, " ") != want {
		t.Errorf("the queue has %v", got)
	}
}

// TestAnOldPodGroupGivesNoPlaceInLine: gangs stand by the age of their PodGroups, but who keeps old ones to use them later comes before
// nobody who waits for longer than a while.
func TestAnOldPodGroupGivesNoPlaceInLine(t *testing.T) {
	for name, tc := range map[string]struct{ group, pods, want time.Duration }{
		"made with its pods":     {0, time.Second, 0},
		"some time before them":  {0, maxHeadStart, 0},
		"a year before them":     {0, 365*24*time.Hour + time.Minute, 365 * 24 * time.Hour},
		"made after its pods":    {time.Minute, 0, time.Minute},
		"its pods are made anew": {0, 5*time.Hour + 59*time.Minute, 5 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1)
			l.group("g", map[string]any{"minMember": int64(1)}, func(g *unstructured.Unstructured) {
				g.SetCreationTimestamp(metav1.NewTime(noon.Add(tc.group)))
			})
			pod := l.member("a", func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(noon.Add(tc.pods)) })
			if got := l.currentPosition(pod).At.Sub(noon); got != tc.want {
				t.Errorf("in the queue since %s, want %s", got, tc.want)
			}
			if got := l.backfillPosition(pod).Since.Sub(noon); got != tc.want {
				t.Errorf("in the line for promises since %s, want %s", got, tc.want)
			}
		})
	}
}

// TestWhoChangesAPodGroupHasNotAllTriedEachTime, however many gangs name it: pods of as many owners, none of which is ever whole. They are tried
// when they have rested.
func TestWhoChangesAPodGroupHasNotAllTriedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		for i := range 100 {
			l.member(fmt.Sprint("p", i), ownedBy(types.UID(fmt.Sprint("job", i))))
		}
		changed := func(members int) int {
			l.group("g", map[string]any{"minMember": int64(members)})
			l.forget()
			l.groupChanged(nil, l.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"}))
			return len(l.tried())
		}
		if got := changed(2); got != 100 {
			t.Errorf("%d are tried when it comes, want all", got)
		}
		for members := 3; members < 10; members++ {
			if got := changed(members); got != 1 {
				t.Errorf("%d are tried when it changes once more, want one", got)
			}
		}
		l.forget()
		time.Sleep(100 * restPerMember)
		synctest.Wait()
		if got := len(l.tried()); got != 100 {
			t.Errorf("%d are tried when they have rested, want all", got)
		}
		pod := l.member("p0", ownedBy("job0"))
		l.PreEnqueue(l.Context(), pod)
		other := queued(t, fixture.Pod("other").Obj(), l.now().Add(500*time.Millisecond))
		if l.Less(queued(t, pod, l.now()), other) {
			t.Error("they come before pods of others that come meanwhile")
		}
		time.Sleep(time.Hour)
	})
}

// TestAGangThatGrowsDoesNotComeFirst: a gang that runs whole, of which the PodGroup is made larger since, has not "begun to take places":
// its further members stand in line like others. Else two pods without GPUs that run let their owner have each further pod placed before all others
// of its priority.
func TestAGangThatGrowsDoesNotComeFirst(t *testing.T) {
	l := newLab(t, 3)
	l.group("g", map[string]any{"minMember": int64(2)})
	for i := range 2 {
		l.podChanged(l.member(fmt.Sprint("runs-", i), boundTo(fmt.Sprint("n", i)), ofApp("cpu", 0)))
	}
	l.group("g", map[string]any{"minMember": int64(3)})
	l.groupChanged(nil, l.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"}))
	further := l.member("further")
	l.PreEnqueue(t.Context(), further)
	if turn, _ := l.queuePositions.PositionOf(further.UID); turn.HasBegun {
		t.Error("a member beyond a whole gang comes before all others of its priority, those included that came first")
	}
}

// TestAGangThatGrewUnderAnotherLeaderDoesNotComeFirst: the plan that is written on its members says how many they were when it began.
func TestAGangThatGrewUnderAnotherLeaderDoesNotComeFirst(t *testing.T) {
	for planned, first := range map[int]bool{2: false, 3: true} {
		l := newLab(t, 3)
		l.group("g", map[string]any{"minMember": int64(3)})
		for i := range 2 {
			l.member(fmt.Sprint("runs-", i), boundTo(fmt.Sprint("n", i)), func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{names.AnnotationGangPlan: fmt.Sprint("2026-01-01T12:00:00Z/", planned)}
			})
		}
		further := l.member("further")
		if halves := l.PendingPartialGangs(further.Spec.SchedulerName); (len(halves) > 0) != first {
			t.Errorf("begun with %d: it comes first: %v", planned, len(halves) > 0)
		}
		l.PreEnqueue(t.Context(), further)
		if turn, _ := l.queuePositions.PositionOf(further.UID); turn.HasBegun != first {
			t.Errorf("begun with %d: it comes first: %v", planned, turn.HasBegun)
		}
	}
}
