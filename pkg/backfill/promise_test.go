package backfill

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/test/fixture"
)

func podOf(name string, gpus int64, limit time.Duration) *corev1.Pod {
	pod := fixture.Pod(name).GPUs(gpus).Obj()
	pod.UID = types.UID(name)
	if limit > 0 {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(limit.Seconds()))
	}
	return pod
}

// TestAPromiseIsKept lets pods come at random to a node of 8 GPUs of which some are promised, as long as there is room and the promise
// lets them, and looks at what is left when its time has come.
func TestAPromiseIsKept(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	came, kept := 0, 0
	for range 2_000 {
		at, need := after(60), int64(1+random.IntN(8))
		node := fixture.Node("n").GPUs(8, "T4").Obj()
		promise := &StartReservation{QueuePosition: QueuePosition{Job: "large"}, At: at, Places: map[string]NodeReservation{
			"n": {Needs: cycle.PodResourceRequests(podOf("large", need, 0)), Leaving: sets.New[types.UID]()},
		}}
		book := &ReservationSet{reservations: []*StartReservation{promise}}
		var there []*corev1.Pod
		gone := map[types.UID]time.Time{} // the zero time for never
		held := func(then time.Time) (gpus int64) {
			for _, pod := range there {
				if end := gone[pod.UID]; end.IsZero() || end.After(then) {
					gpus += gpusOf(pod)
				}
			}
			return gpus
		}
		for minute, i := 0, 0; minute < 60; minute, i = minute+random.IntN(9), i+1 {
			now := after(minute)
			pod := podOf(fmt.Sprint(i), int64(1+random.IntN(4)), time.Duration(random.IntN(3)*random.IntN(40))*time.Minute)
			pod.CreationTimestamp = metav1.NewTime(now)
			if held(now)+gpusOf(pod) > 8 {
				continue
			}
			var running []*corev1.Pod
			for _, other := range there {
				if end := gone[other.UID]; end.IsZero() || end.After(now) {
					running = append(running, other)
				}
			}
			info := framework.NewNodeInfo(running...)
			info.SetNode(node)
			if book.ReservedFrom(pod, QueuePosition{Job: pod.Name, Since: now}, now).RoomFor(info) == 0 {
				kept++
				continue
			}
			came++
			pod.Status.StartTime = &metav1.Time{Time: now.Add(time.Duration(random.IntN(60)) * time.Second)}
			if pod.Spec.ActiveDeadlineSeconds != nil {
				gone[pod.UID] = pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds+30) * time.Second)
			}
			there = append(there, pod)
		}
		if left := 8 - held(at); left < need {
			t.Fatalf("%d GPUs were promised, and %d are left", need, left)
		}
	}
	if came < 2_000 || kept < 2_000 {
		t.Errorf("%d pods came and %d were kept out: that proves little", came, kept)
	}
}

func TestAgainst(t *testing.T) {
	large := QueuePosition{Job: "large", Priority: 10, Since: noon}
	full := framework.NewNodeInfo()
	full.SetNode(fixture.Node("n").GPUs(8, "T4").Obj())
	for name, tc := range map[string]struct {
		turn  QueuePosition
		pod   *corev1.Pod
		need  int64
		after time.Duration
		want  int
	}{
		"a job that comes after it":               {turn: QueuePosition{Job: "a", Priority: 10, Since: after(1)}, pod: podOf("a", 1, 0), need: 8},
		"one that came before":                    {turn: QueuePosition{Job: "a", Priority: 10, Since: after(-1)}, pod: podOf("a", 1, 0), need: 8, want: math.MaxInt},
		"one of higher priority":                  {turn: QueuePosition{Job: "a", Priority: 11, Since: after(1)}, pod: podOf("a", 1, 0), need: 8, want: math.MaxInt},
		"one of lower priority that came before":  {turn: QueuePosition{Job: "a", Priority: 9, Since: after(-1)}, pod: podOf("a", 1, 0), need: 8},
		"one of the same second":                  {turn: QueuePosition{Job: "a", Priority: 10, Since: noon}, pod: podOf("a", 1, 0), need: 8},
		"itself":                                  {turn: large, pod: podOf("a", 8, 0), need: 8, want: math.MaxInt},
		"one that is gone by then":                {turn: QueuePosition{Job: "a", Priority: 10, Since: after(1)}, pod: podOf("a", 8, 50*time.Minute), need: 8, want: math.MaxInt},
		"one that may be there for a second more": {turn: QueuePosition{Job: "a", Priority: 10, Since: after(1)}, pod: podOf("a", 8, 58*time.Minute+31*time.Second), need: 8},
		"what it leaves":                          {turn: QueuePosition{Job: "a", Priority: 10, Since: after(1)}, pod: podOf("a", 1, 0), need: 5, want: 3},
		"a pod without GPUs":                      {turn: QueuePosition{Job: "a", Priority: 10, Since: after(1)}, pod: podOf("a", 0, 0), need: 8, want: math.MaxInt},
		"its time is over for long":               {turn: QueuePosition{Job: "a", Priority: 10, Since: after(1)}, pod: podOf("a", 1, 0), need: 8, after: 70 * time.Minute, want: math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			needs := []cycle.ResourceRequest{{Resource: "nvidia.com/gpu", Amount: tc.need}}
			book := &ReservationSet{reservations: []*StartReservation{{QueuePosition: large, At: after(60), Places: map[string]NodeReservation{"n": {Needs: needs}}}}}
			if got := book.ReservedFrom(tc.pod, tc.turn, noon.Add(tc.after)).RoomFor(full); got != tc.want {
				t.Errorf("there is room for %d, want %d", got, tc.want)
			}
		})
	}
}

// TestNodesAreReleased when nothing is promised of them any more, or from a later time on.
func TestNodesAreReleased(t *testing.T) {
	of := func(job string, at int, nodes ...string) *StartReservation {
		promise := &StartReservation{QueuePosition: QueuePosition{Job: job}, Pool: job[:1], At: after(at), Places: map[string]NodeReservation{}}
		for _, node := range nodes {
			promise.Places[node] = NodeReservation{}
		}
		return promise
	}
	synctest.Test(t, func(t *testing.T) {
		p, at := NewStartReservations(nil), after(12)
		var released []string
		p.OnRelease(func(change Release) { released = append(released, change.Nodes...) })
		for _, step := range []struct {
			what string
			do   func()
			want []string
			same bool // what was promised
		}{
			{what: "the first promise", do: func() { p.ReserveStart(of("a", 10, "x", "y")) }},
			{what: "it is confirmed", do: func() { p.ReserveStart(of("a", 10, "x", "y")) }, same: true},
			{what: "it is for a moment later", do: func() { p.ReserveStart(of("a", 10, "x", "y")) }, same: true},
			{what: "it is for an earlier time", do: func() { p.ReserveStart(of("a", 5, "x", "y")) }},
			{what: "it is for a later time", do: func() { p.ReserveStart(of("a", 12, "x", "y")) }, want: []string{"x", "y"}},
			{what: "it is for a later time, bit by bit", do: func() {
				for range 3 {
					at = at.Add(50 * time.Second)
					promise := of("a", 0, "x", "y")
					promise.At = at
					p.ReserveStart(promise)
				}
			}, want: []string{"x", "y"}},
			{what: "it is for other nodes", do: func() { p.ReserveStart(of("a", 12, "y", "z")) }, want: []string{"x"}},
			{what: "another line has its own", do: func() { p.ReserveStart(of("b", 11, "z")) }},
			{what: "another job comes first", do: func() { p.ReserveStart(of("a2", 11, "y")) }, want: []string{"y", "z"}},
			{what: "nobody's ends", do: func() { p.EndReservation("a") }, same: true},
			{what: "its job has started", do: func() { p.EndReservation("a2", "x") }, want: []string{"y"}},
			{what: "another has, on its nodes", do: func() { p.ReserveStart(of("c", 11, "u", "v")); p.EndReservation("c", "v", "u") }},
		} {
			released = nil
			before := p.Version()
			step.do()
			synctest.Wait()
			if diff := cmp.Diff(step.want, released); diff != "" {
				t.Errorf("%s: released (-want +got):\n%s", step.what, diff)
			}
			if same := p.Version() == before; same != step.same {
				t.Errorf("%s: the version is the same: %v, want %v", step.what, same, step.same)
			}
		}
	})
}

func gpusOf(pod *corev1.Pod) int64 {
	return cycle.SumOf(cycle.PodResourceRequests(pod), "nvidia.com/gpu")
}
