package partial_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// pod is a member that was made some seconds after noon.
func pod(born int, change ...func(*corev1.Pod)) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(born), OwnerReferences: []metav1.OwnerReference{{Controller: ptr.To(true)}}}}
	out.Spec.SchedulerName = "ours"
	for _, change := range change {
		change(out)
	}
	return out
}

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

func bound(seconds int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName = "n"
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(seconds)})
	}
}

func planned(plan string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{names.AnnotationGangPlan: plan} }
}

func disrupted(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
	}
}

// TestWasNeverWhole has what pods tell of a gang of two, a minute after noon.
func TestWasNeverWhole(t *testing.T) {
	long := 60 - int(partial.MaxLostRuntime/time.Second) - 1
	for name, tc := range map[string]struct {
		bound   []*corev1.Pod
		waiting *corev1.Pod
		group   partial.Group
		want    bool
	}{
		"one of a plan of two":                      {bound: []*corev1.Pod{pod(0, bound(5), planned("a/2"))}, waiting: pod(30), want: true},
		"one of a plan of one":                      {bound: []*corev1.Pod{pod(0, bound(5), planned("a/1"))}, waiting: pod(30)},
		"parts of two plans":                        {bound: []*corev1.Pod{pod(0, bound(5), planned("a/2")), pod(0, bound(6), planned("b/3"))}, waiting: pod(30), want: true},
		"a part beside a plan that is complete":     {bound: []*corev1.Pod{pod(0, bound(5), planned("a/2")), pod(0, bound(6), planned("b/1"))}, waiting: pod(30)},
		"a part that has run for long":              {bound: []*corev1.Pod{pod(long, bound(long), planned("a/2"))}, waiting: pod(30)},
		"a part that has run for long, and ends":    {bound: []*corev1.Pod{pod(long, bound(long), planned("a/2"), disrupted(partial.ReleaseReason))}, waiting: pod(30), want: true},
		"no plan, and both made before the binding": {bound: []*corev1.Pod{pod(0, bound(5))}, waiting: pod(0), want: true},
		"no plan, and one made after it":            {bound: []*corev1.Pod{pod(0, bound(5))}, waiting: pod(30)},
		"no plan, and a group changed since":        {bound: []*corev1.Pod{pod(0, bound(5))}, waiting: pod(0), group: partial.Group{Generation: 2}},
		"no plan, and a group made after it":        {bound: []*corev1.Pod{pod(0, bound(5))}, waiting: pod(0), group: partial.Group{Created: noon.Add(10 * time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.group.MinMember = 2
			m := &placement.Members{Placed: tc.bound, Bound: len(tc.bound), Waiting: []*corev1.Pod{tc.waiting}}
			if got := partial.WasNeverWhole(tc.bound, m, tc.group, noon.Add(time.Minute)); got != tc.want {
				t.Errorf("never whole: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestOnlyWhatIsMadeAgainMayBeReleased, and what our scheduler placed.
func TestOnlyWhatIsMadeAgainMayBeReleased(t *testing.T) {
	foreign := func(pod *corev1.Pod) { pod.Spec.SchedulerName = "another" }
	bare := func(pod *corev1.Pod) { pod.OwnerReferences = nil }
	for name, tc := range map[string]struct {
		placed []*corev1.Pod
		want   bool
	}{
		"one that is bound":                   {placed: []*corev1.Pod{pod(0, bound(5))}, want: true},
		"one that is bound, one that waits":   {placed: []*corev1.Pod{pod(0, bound(5)), pod(0)}, want: true},
		"one that another scheduler placed":   {placed: []*corev1.Pod{pod(0, bound(5), foreign)}},
		"one that nobody makes again":         {placed: []*corev1.Pod{pod(0, bound(5), bare)}},
		"as many as the gang needs are bound": {placed: []*corev1.Pod{pod(0, bound(5)), pod(0, bound(5)), pod(0, bound(5))}},
	} {
		m := &placement.Members{Placed: tc.placed}
		for _, pod := range tc.placed {
			if pod.Spec.NodeName != "" {
				m.Bound++
			}
		}
		if got := partial.MayBeReleased(partial.BoundByScheduler("ours", m), m, 3); got != tc.want {
			t.Errorf("%s: may be released: %t, want %t", name, got, tc.want)
		}
	}
}

// TestAwaitedUntil has what a gang waits for, a minute after noon.
func TestAwaitedUntil(t *testing.T) {
	leaves := func(seconds, grace int) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(at(seconds)), ptr.To(int64(grace))
		}
	}
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		closed bool
		want   int // seconds after noon, 0 for not
	}{
		"its grace period":                      {pod: pod(0, bound(5), leaves(80, 25)), want: 80},
		"no longer than half a minute":          {pod: pod(0, bound(5), leaves(640, 600)), want: 70},
		"longer than a duration can be":         {pod: pod(0, bound(5), leaves(640, 1<<62))},
		"no more, as its time is over":          {pod: pod(0, bound(5), leaves(59, 25))},
		"not on a node that is closed":          {pod: pod(0, bound(5), leaves(80, 25)), closed: true},
		"not where others take what it gave up": {pod: pod(0, bound(5), leaves(80, 25), disrupted(corev1.PodReasonPreemptionByScheduler))},
	} {
		got := partial.AwaitedUntil([]*corev1.Pod{tc.pod}, func(*corev1.Pod) bool { return !tc.closed }, noon.Add(time.Minute))
		if want := at(tc.want).Time; tc.want > 0 && !got.Equal(want) || tc.want == 0 && !got.IsZero() {
			t.Errorf("%s: awaited until %s, want %d seconds after noon", name, got, tc.want)
		}
	}
}

// TestWhatEndsByItselfIsNotLost: nothing was about to delete it.
func TestWhatEndsByItselfIsNotLost(t *testing.T) {
	deleted := pod(0, bound(5), func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(at(9)) })
	ended := pod(0, bound(5), func(pod *corev1.Pod) { pod.DeletionTimestamp, pod.Status.Phase = ptr.To(at(9)), corev1.PodFailed })
	for name, tc := range map[string]struct {
		pod              *corev1.Pod
		isLost, isLeaves bool
	}{
		"it ended":               {pod: pod(0, bound(5))},
		"it is deleted":          {pod: deleted, isLost: true, isLeaves: true},
		"it is evicted":          {pod: pod(0, bound(5), disrupted(corev1.PodReasonPreemptionByScheduler)), isLost: true},
		"it failed, and leaves":  {pod: ended, isLost: true},
		"it leaves, had no node": {pod: pod(0, func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(at(9)) }), isLost: true},
	} {
		if lost, leaves := partial.IsLost(tc.pod), partial.IsLeaving(tc.pod); lost != tc.isLost || leaves != tc.isLeaves {
			t.Errorf("%s: lost %t, leaving %t, want %t and %t", name, lost, leaves, tc.isLost, tc.isLeaves)
		}
	}
}

// TestHasLostMember has what pods tell of a gang of three that started at noon.
func TestHasLostMember(t *testing.T) {
	const plan = "a/3"
	ends := func(from int) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(at(from+30)), ptr.To(int64(30))
		}
	}
	first, lost, beyond := pod(0, bound(5), planned(plan)), pod(0, bound(5), planned(plan), ends(100)), pod(0, bound(9), ends(100))
	again := pod(100, bound(110), planned("b/1"))
	for name, tc := range map[string]struct {
		bound, leaving []*corev1.Pod
		want           bool
	}{
		"none ends":                                  {bound: []*corev1.Pod{first}},
		"one ends":                                   {bound: []*corev1.Pod{first}, leaving: []*corev1.Pod{lost}, want: true},
		"one ends, and was made again":               {bound: []*corev1.Pod{first, again}, leaving: []*corev1.Pod{lost}},
		"two end, and one was made again":            {bound: []*corev1.Pod{first, again}, leaving: []*corev1.Pod{lost, lost}, want: true},
		"one was made again, and another ends later": {bound: []*corev1.Pod{first, again}, leaving: []*corev1.Pod{pod(0, bound(5), planned(plan), ends(200))}, want: true},
		"one ends that came when it was whole":       {bound: []*corev1.Pod{first}, leaving: []*corev1.Pod{beyond}},
		"one ends, and no plan is known":             {bound: []*corev1.Pod{pod(0, bound(5))}, leaving: []*corev1.Pod{beyond}, want: true},
		"those of an earlier start end":              {bound: []*corev1.Pod{again}, leaving: []*corev1.Pod{lost, lost}},
		"all end":                                    {leaving: []*corev1.Pod{lost}},
	} {
		if got := partial.HasLostMember(&placement.Members{Placed: tc.bound}, tc.leaving); got != tc.want {
			t.Errorf("%s: it has lost a member: %t, want %t", name, got, tc.want)
		}
	}
}
