package coscheduling

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// line is a queue as kube-scheduler's: a heap that is told of what is put in and taken out, and of nothing else.
type line struct {
	of   []fwk.QueuedPodInfo
	less func(a, b fwk.QueuedPodInfo) bool
}

func (l *line) Len() int           { return len(l.of) }
func (l *line) Less(i, j int) bool { return l.less(l.of[i], l.of[j]) }
func (l *line) Swap(i, j int)      { l.of[i], l.of[j] = l.of[j], l.of[i] }
func (l *line) Push(x any)         { l.of = append(l.of, x.(fwk.QueuedPodInfo)) }
func (l *line) Pop() any {
	last := l.of[len(l.of)-1]
	l.of = l.of[:len(l.of)-1]
	return last
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func queued(t *testing.T, pod *corev1.Pod, at time.Time) fwk.QueuedPodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info, InitialAttemptTimestamp: &at}
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
			l.places.wait(g, "somebody-"+g.owner)
		case 1:
			l.places.fail(g, noon.Add(time.Duration(random.IntN(60))*time.Minute))
		case 2:
			l.places.forget("somebody-" + g.owner)
		case 3:
			l.places.succeed(g)
		}
		next, ok := heap.Pop(q).(fwk.QueuedPodInfo)
		if !ok {
			t.Fatal("no pod")
		}
		for _, other := range q.of {
			if l.Less(other, next) {
				t.Fatalf("%s is taken out before %s", next.GetPodInfo().GetPod().Name, other.GetPodInfo().GetPod().Name)
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
	g := gangOf(member, l.groups.get(types.NamespacedName{Namespace: member.Namespace, Name: "g"}))
	if !l.places.mayWake(g, 200, noon) || l.places.mayWake(g, 200, noon.Add(time.Second)) {
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

// TestTurnsAreForgotten with the pods that they are of.
func TestTurnsAreForgotten(t *testing.T) {
	l := newLab(t, 1)
	l.group("g", map[string]any{"minMember": int64(2)})
	gone, bound := l.member("gone"), l.member("bound")
	single := fixture.Pod("single").Obj()
	for _, pod := range []*corev1.Pod{gone, bound, single} {
		if status := l.PreEnqueue(t.Context(), pod); !status.IsSuccess() {
			t.Errorf("%s is kept from the queue: %v", pod.Name, status)
		}
	}
	if len(l.places.turns) != 2 {
		t.Errorf("%d turns are kept, want those of the two members", len(l.places.turns))
	}
	l.podGone(gone)
	bound.Spec.NodeName = "n0"
	l.podChanged(bound)
	if len(l.places.turns) != 0 {
		t.Errorf("%d turns are left", len(l.places.turns))
	}
}
