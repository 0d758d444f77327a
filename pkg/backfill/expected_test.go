package backfill

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/survival"
	"g8s.host/gpu-scheduler/test/fixture"
)

// ran is what is learnt from jobs of a namespace that had 8 GPUs.
func ran(namespace string, minutes ...int) *survival.History {
	past := &survival.History{}
	for _, took := range minutes {
		past.AddRun(survival.Job{Namespace: namespace, GPUs: 8}, time.Duration(took)*time.Minute)
	}
	return past
}

// times is so many jobs that took as long.
func times(count, minutes int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = minutes
	}
	return all
}

// onceOf is a pod of a team that ends by itself.
func onceOf(name string, gpus int64) *corev1.Pod {
	pod := podOf(name, gpus, 0)
	pod.Namespace, pod.Spec.RestartPolicy = "team", corev1.RestartPolicyNever
	return pod
}

// TestWhoIsExpectedToBeGone may be on a promised node until then, as long as nothing surer was promised.
func TestWhoIsExpectedToBeGone(t *testing.T) {
	full := framework.NewNodeInfo()
	full.SetNode(fixture.Node("n").GPUs(8, "T4").Obj())
	for name, tc := range map[string]struct {
		past *survival.History
		// sure has the promise rest on deadlines.
		sure bool
		// waited is for how long the job has that it was given to.
		waited time.Duration
		change func(*corev1.Pod)
		want   int
	}{
		"those before it were gone by then":       {past: ran("team", times(40, 20)...), want: math.MaxInt},
		"one in twenty of them was not":           {past: ran("team", append(times(38, 20), times(2, 600)...)...), want: math.MaxInt},
		"one in ten of them was not":              {past: ran("team", append(times(36, 20), times(4, 600)...)...)},
		"there were too few":                      {past: ran("team", times(19, 20)...)},
		"nobody knows anything":                   {},
		"those of others were":                    {past: ran("others", times(40, 20)...)},
		"the promise rests on deadlines":          {past: ran("team", times(40, 20)...), sure: true},
		"the job has waited for nearly that long": {past: ran("team", times(40, 20)...), waited: trustPeriod - time.Second, want: math.MaxInt},
		"the job has waited for so long":          {past: ran("team", times(40, 20)...), waited: trustPeriod},
		"it takes just as long as there is":       {past: ran("team", times(40, 59)...), want: math.MaxInt},
		"it takes a minute more":                  {past: ran("team", times(40, 60)...)},
		"it is a service":                         {past: ran("team", times(40, 20)...), change: func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyAlways }},
		"its deadline is later":                   {past: ran("team", times(40, 20)...), change: func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](7200) }},
		"its deadline is sooner than they took":   {past: ran("team", times(40, 90)...), change: func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](1200) }, want: math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewStartReservations(func() time.Time { return noon })
			p.SetPositionFunc(func(pod *corev1.Pod) QueuePosition { return QueuePosition{Job: pod.Name, Since: noon} })
			p.SetHistory(tc.past)
			p.ReserveStart(&StartReservation{
				QueuePosition: QueuePosition{Job: "large", Since: noon.Add(-tc.waited)}, At: after(60), Expected: !tc.sure,
				Places: map[string]NodeReservation{"n": {Needs: cycle.PodResourceRequests(podOf("large", 8, 0))}},
			})
			pod := onceOf("a", 8)
			if tc.change != nil {
				tc.change(pod)
			}
			if got := p.ReservedFrom(pod).RoomFor(full); got != tc.want {
				t.Errorf("there is room for %d, want %d", got, tc.want)
			}
		})
	}
}

// TestWhoStaysIsCounted by when it is expected to be gone, beside a promise that rests on that.
func TestWhoStaysIsCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		past *survival.History
		sure bool
		want int
	}{
		"it is expected to be gone":      {past: ran("team", times(40, 20)...), want: 4},
		"it is expected to stay":         {past: ran("team", times(40, 90)...), want: 2},
		"the promise rests on deadlines": {past: ran("team", times(40, 20)...), sure: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewStartReservations(func() time.Time { return noon })
			p.SetPositionFunc(func(pod *corev1.Pod) QueuePosition { return QueuePosition{Job: pod.Name, Since: noon} })
			p.SetHistory(tc.past)
			p.ReserveStart(&StartReservation{QueuePosition: QueuePosition{Job: "large", Since: noon}, At: after(60), Expected: !tc.sure, Places: map[string]NodeReservation{
				"n": {Needs: cycle.PodResourceRequests(podOf("large", 4, 0)), Leaving: sets.New[types.UID]()},
			}})
			on := framework.NewNodeInfo(onceOf("there", 2))
			on.SetNode(fixture.Node("n").GPUs(8, "T4").Obj())
			if got := p.ReservedFrom(podOf("stays", 1, 0)).RoomFor(on); got != tc.want {
				t.Errorf("there is room for %d, want %d", got, tc.want)
			}
		})
	}
}

// TestAnExpectationHoldsUntilItIsOver, and who lasts longer is asked of again among those that did.
func TestAnExpectationHoldsUntilItIsOver(t *testing.T) {
	var minutes []int
	for minute := range 100 {
		minutes = append(minutes, times(4, minute+1)...)
	}
	p := NewStartReservations(nil)
	p.SetPositionFunc(func(pod *corev1.Pod) QueuePosition { return QueuePosition{Job: pod.Name} })
	p.SetHistory(ran("team", minutes...))
	pod := onceOf("a", 8)
	pod.Status.StartTime = &metav1.Time{Time: noon}
	for _, step := range []struct {
		what    string
		do      func()
		at, end int // in minutes, 0 for never
	}{
		{what: "it begins", at: 0, end: 95},
		{what: "half of those before it have ended by then", at: 50, end: 95},
		{what: "another ledger says that they take an hour", do: func() { p.SetHistory(ran("team", times(40, 60)...)) }, at: 51, end: 95},
		{what: "it lasts longer than all of those", at: 96},
		{what: "the first says more", do: func() { p.SetHistory(ran("team", minutes...)) }, at: 96, end: 100},
		{what: "nobody knows any more", do: func() { p.SetHistory(nil) }, at: 97},
		{what: "it lasts longer than any", do: func() { p.SetHistory(ran("team", minutes...)) }, at: 101},
	} {
		if step.do != nil {
			step.do()
		}
		got := 0
		if end, known := p.ExpectedEnd(pod, after(step.at)); known {
			got = int(end.Sub(noon).Minutes())
		}
		if got != step.end {
			t.Errorf("%s: it is gone by minute %d, want %d", step.what, got, step.end)
		}
	}
}

// TestExpectationsAreBounded, however many pods come and go; those that count are kept while there is room.
func TestExpectationsAreBounded(t *testing.T) {
	var e expectations
	for i := range maxExpectedEnds {
		e.rememberEnd(types.UID(fmt.Sprint(i)), after(i%2*60), after(0))
	}
	e.rememberEnd("next", after(60), after(30))
	if want := maxExpectedEnds/2 + 1; len(e.ends) != want {
		t.Errorf("%d are kept when half of them are over, want %d", len(e.ends), want)
	}
	for i := range maxExpectedEnds {
		e.rememberEnd(types.UID(fmt.Sprint("more", i)), after(60), after(30))
	}
	if len(e.ends) > maxExpectedEnds {
		t.Errorf("%d are kept", len(e.ends))
	}
}

// TestExpectationsAreAskedAtOnce by filters of many nodes, while a ledger says more.
func TestExpectationsAreAskedAtOnce(t *testing.T) {
	p := NewStartReservations(nil)
	p.SetPositionFunc(func(pod *corev1.Pod) QueuePosition { return QueuePosition{Job: pod.Name} })
	p.SetHistory(ran("team", times(40, 20)...))
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 100 {
				if _, known := p.ExpectedEnd(onceOf(fmt.Sprint(worker, i), 8), noon); !known {
					t.Error("it is not known")
				}
				if worker == 0 {
					p.SetHistory(ran("team", times(40, 20+i)...))
				}
			}
		})
	}
	all.Wait()
}

// TestWhoLosesTooManyBets bets no more: a namespace whose pods stay when those before them were gone, and nobody else.
func TestWhoLosesTooManyBets(t *testing.T) {
	full := framework.NewNodeInfo()
	full.SetNode(fixture.Node("n").GPUs(8, "T4").Obj())
	for name, tc := range map[string]struct {
		placed, lost int
		on           string
		want         bool
	}{
		"two of two":                         {placed: 2, lost: 2, on: "n"},
		"three of three":                     {placed: 3, lost: 3, on: "n", want: true},
		"three of ten":                       {placed: 10, lost: 3, on: "n"},
		"four of ten":                        {placed: 10, lost: 4, on: "n", want: true},
		"one in ten of many":                 {placed: 100, lost: 10, on: "n"},
		"all, on nodes of which nothing was": {placed: 20, lost: 20, on: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			now := noon
			p := NewStartReservations(func() time.Time { return now })
			p.SetPositionFunc(func(pod *corev1.Pod) QueuePosition { return QueuePosition{Job: pod.Name, Since: now} })
			past := ran("team", times(40, 20)...)
			for range 40 {
				past.AddRun(survival.Job{Namespace: "fair", GPUs: 8}, 20*time.Minute)
			}
			p.SetHistory(past)
			give := func() {
				p.ReserveStart(&StartReservation{
					QueuePosition: QueuePosition{Job: "large", Since: noon.Add(-time.Hour)}, At: after(60), Expected: true,
					Places: map[string]NodeReservation{"n": {Needs: cycle.PodResourceRequests(podOf("large", 8, 0))}},
				})
			}
			give()
			for i := range tc.placed {
				p.PlaceBet(onceOf(fmt.Sprint(i), 8), tc.on)
			}
			now = after(25)
			p.SettleBets("large", func(name types.NamespacedName, _ types.UID) bool {
				var number int
				_, _ = fmt.Sscan(name.Name, &number)
				return number < tc.lost
			})
			give()
			if got := p.ReservedFrom(onceOf("next", 8)).RoomFor(full) == 0; got != tc.want {
				t.Errorf("it is kept out: %v, want %v", got, tc.want)
			}
			fair := onceOf("fair", 8)
			fair.Namespace = "fair"
			if p.ReservedFrom(fair).RoomFor(full) == 0 {
				t.Error("those of another namespace are kept out")
			}
		})
	}
}
