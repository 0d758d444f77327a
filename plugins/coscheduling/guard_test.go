package coscheduling

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/test/fixture"
)

// asks has a pod ask for a min-runtime.
func asks(long string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{names.AnnotationMinRuntime: long} }
}

// declares makes a GPUPool of the nodes without a label.
func (l *lab) declares(defaults map[string]any) {
	l.Helper()
	text := func(field string) string { value, _ := defaults[field].(string); return value }
	l.must(l.pools.AddPool(metav1.ObjectMeta{Name: names.DefaultPool}, names.PoolDefaults{
		MinRuntime: text("minRuntime"), MaxMinRuntime: text("maxMinRuntime"), CheckpointGrace: text("checkpointGrace"), MaxCheckpointGrace: text("maxCheckpointGrace"),
	}))
}

// ofADay has pods protected for as long as they ask, within a day.
var ofADay = map[string]any{"maxMinRuntime": "24h"}

// TestWhoHasNotRunLongEnoughStays, as long as their pool allows.
func TestWhoHasNotRunLongEnoughStays(t *testing.T) {
	minus := ofPriority(-1)
	tests := map[string]struct {
		nodes   int
		pool    map[string]any
		runs    func(*lab)
		change  func(*corev1.Pod)
		evicted []string
		told    bool
	}{
		"another leaves, though it loses more": {nodes: 3, runs: func(l *lab) {
			l.running(0, "young", 5, minus, asks("10m"))
			l.running(1, "old", 50, minus)
		}, evicted: []string{"old"}},
		"it has run long enough": {runs: func(l *lab) { l.running(0, "a", 11, minus, asks("10m")) }, evicted: []string{"a"}},
		"it has not":             {runs: func(l *lab) { l.running(0, "a", 9, minus, asks("10m")) }, told: true},
		"for all that its pool says": {pool: map[string]any{"minRuntime": "10m"},
			runs: func(l *lab) { l.running(0, "a", 9, minus) }, told: true},
		"what it asks for is cut": {pool: map[string]any{"maxMinRuntime": "8m"},
			runs: func(l *lab) { l.running(0, "a", 9, minus, asks("1000h")) }, evicted: []string{"a"}},
		"no number of its pool is read": {pool: map[string]any{"minRuntime": int64(10), "maxMinRuntime": []any{"1m"}},
			runs: func(l *lab) { l.running(0, "a", 9, minus) }, evicted: []string{"a"}},
		"its pool says nothing": {pool: map[string]any{},
			runs: func(l *lab) { l.running(0, "a", 9, minus, asks("10m")) }, evicted: []string{"a"}},
		"what it asks for cannot be read": {runs: func(l *lab) { l.running(0, "a", 9, minus, asks("soon")) }, evicted: []string{"a"}},
		"all of a gang, as long as one has not": {runs: func(l *lab) {
			l.group("low", map[string]any{"minMember": int64(2)})
			of := func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = "low"; ownedBy("low")(pod) }
			l.running(0, "low-0", 50, minus, of)
			l.running(1, "low-1", 5, minus, asks("10m"), of)
			l.infos[1] = nodeInfo(l.infos[1].Node())
		}, told: true},
		"one that is bound, and of which its node has not told": {runs: func(l *lab) {
			l.running(0, "a", 0, minus, asks("10m"), func(pod *corev1.Pod) {
				pod.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(l.now()),
				}}}
			})
		}, told: true},
		"services of the cluster come first": {runs: func(l *lab) { l.running(0, "a", 9, minus, asks("10m")) },
			change: ofPriority(2_000_000_000), evicted: []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, max(2, tc.nodes))
			l.answers()
			l.group("g", map[string]any{"minMember": int64(2)})
			if tc.pool == nil {
				tc.pool = ofADay
			}
			l.declares(tc.pool)
			tc.runs(l)
			if tc.change == nil {
				tc.change = func(*corev1.Pod) {}
			}
			first := l.member("m0", tc.change)
			l.member("m1", tc.change)
			node, evicted, _ := l.refuse(first)
			if !slices.Equal(evicted, tc.evicted) || (node != "") != (tc.evicted != nil) {
				t.Errorf("%v are evicted for a place on %q, want %v", evicted, node, tc.evicted)
			}
			if told := strings.Contains(l.told, "min-runtime"); told != tc.told {
				t.Errorf("it is told %q", l.told)
			}
		})
	}
}

// TestAGangIsTriedWhenOthersMayLeave: no change in the cluster tells of it. Meanwhile it says why it waits, and a timer is enough
// however often it is tried.
func TestAGangIsTriedWhenOthersMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRacks(t, 2)
		l.declares(ofADay)
		l.answers()
		l.group("g", map[string]any{"minMember": int64(2)})
		l.running(0, "a", 5, ofPriority(-1), asks("10m"))
		first := l.member("m0")
		l.member("m1")
		said := ""
		for range 2 {
			if _, evicted, _ := l.refuse(first); len(evicted) > 0 || !strings.Contains(l.told, "min-runtime") || said != "" && l.told != said {
				t.Fatalf("%v are evicted, and it is told %q after %q", evicted, l.told, said)
			}
			said = l.told
			time.Sleep(2 * phase.BaseBackoff) // it is looked for others again, in vain
		}
		if tried := l.tried(); len(tried) > 0 {
			t.Errorf("%v are tried, though nobody may leave", tried)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if tried := l.tried(); !slices.Equal(tried, []string{"ns/m0"}) { // which has the other tried if it gets a place
			t.Errorf("%v are tried when others may leave", tried)
		}
		if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, []string{"a"}) {
			t.Errorf("%v are evicted then", evicted)
		}
	})
}

// TestASimulationGuardsNobody: its clock stands still, and the pods that it was given have run for a while.
func TestASimulationGuardsNobody(t *testing.T) {
	l := newRacks(t, 1)
	l.declares(ofADay)
	pod := l.running(0, "a", 50, asks("10h"))
	if l.MayEvict(pod, fixture.Pod("p").Obj()) {
		t.Error("it may be evicted")
	}
	l.now = func() time.Time { return time.Time{} }
	if !l.MayEvict(pod, fixture.Pod("p").Obj()) {
		t.Error("it is guarded in a simulation")
	}
}

func TestWhoRunsNowhereIsNotGuarded(t *testing.T) {
	l := newRacks(t, 1)
	pod := fixture.Pod("p").Obj()
	for _, change := range []func(*corev1.Pod){
		func(*corev1.Pod) {}, func(pod *corev1.Pod) { pod.Spec.NodeName = "n9" }, asks("1h"), asks(strings.Repeat("9", 1<<16) + "h"),
	} {
		change(pod)
		if until := l.protectedUntil(pod); !until.IsZero() {
			t.Errorf("%+v is guarded until %s, and runs nowhere", pod.Annotations, until)
		}
	}
}

// TestAGangIsTriedWhoseTimerIsOfAnEarlierAttempt: when it ends nobody is looked for, as that was done a moment ago.
func TestAGangIsTriedWhoseTimerIsOfAnEarlierAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRacks(t, 2)
		l.declares(ofADay)
		l.answers()
		l.group("g", map[string]any{"minMember": int64(2)})
		l.running(0, "a", 9, ofPriority(-1), asks("10m1s"))
		first := l.member("m0")
		l.member("m1")
		l.refuse(first)
		time.Sleep(50 * time.Second)
		l.infos[1] = nodeInfo(l.infos[1].Node()) // a change in the cluster
		l.refuse(first)
		time.Sleep(12 * time.Second) // the timer of the first attempt
		l.refuse(first)
		l.forget()
		time.Sleep(phase.BaseBackoff)
		synctest.Wait()
		if tried := l.tried(); len(tried) == 0 {
			t.Error("nobody is tried, though another may leave")
		}
		if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, []string{"a"}) {
			t.Errorf("%v are evicted then", evicted)
		}
	})
}
