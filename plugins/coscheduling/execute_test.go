package coscheduling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// of makes a pod a member of another gang.
func of(group string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels[names.LabelPodGroup] = group
		ownedBy("job")(pod)
	}
}

// TestTwoGangsDoNotOverspendABudget: what it says was counted before the first one evicted.
func TestTwoGangsDoNotOverspendABudget(t *testing.T) {
	l := newRacks(t, 4)
	l.answers()
	now := time.Now()
	l.now = func() time.Time { return now }
	same := func(pod *corev1.Pod) { pod.Labels["app"] = "same" }
	l.budget("same", 1)
	l.running(0, "a", 1, ofPriority(-1), same)
	l.running(2, "b", 1, ofPriority(-1), same)
	var firsts []*corev1.Pod
	for _, group := range []string{"g", "h"} {
		l.group(group, map[string]any{"minMember": int64(2)}, laidOut("required=rack"))
		firsts = append(firsts, l.member(group+"0", of(group)))
		l.member(group+"1", of(group))
	}
	// Each gang could have a rack of its own.
	_, evicted, _ := l.refuse(firsts[0])
	if len(evicted) != 1 {
		t.Fatalf("%v are evicted", evicted)
	}
	if _, more, _ := l.refuse(firsts[1]); len(more) > 0 {
		t.Errorf("%v are evicted after %v, of which the budget allows one", more, evicted)
	}
	l.budget("same", 0)
	now = now.Add(2 * phase.BaseBackoff)
	if _, more, _ := l.refuse(firsts[1]); len(more) > 0 {
		t.Errorf("%v are evicted, which the budget does not allow", more)
	}
	l.budget("same", 1) // the evicted one runs again
	now = now.Add(2 * phase.BaseBackoff)
	if _, more, _ := l.refuse(firsts[1]); len(more) != 1 {
		t.Errorf("%v are evicted when the budget allows one again", more)
	}
}

// TestNobodyLeavesBesideOneThatDoesNot, for that one is asked first; it is left alone for a while, and the gang takes others.
func TestNobodyLeavesBesideOneThatDoesNot(t *testing.T) {
	for name, no := range map[string]error{
		"forbidden":            apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no")),
		"a webhook that fails": apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 3)
			now := time.Now()
			l.now = func() time.Time { return now }
			l.answers()
			l.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.(clienttesting.DeleteAction).GetName() == "a" {
					return true, nil, no
				}
				return false, nil, nil
			})
			l.group("g", map[string]any{"minMember": int64(2)})
			l.running(0, "a", 1, ofPriority(-1))
			l.running(1, "b", 5, ofPriority(-1))
			l.running(2, "c", 60, ofPriority(-1))
			first := l.member("m0")
			l.member("m1")
			if _, evicted, nominated := l.refuse(first); len(evicted) > 0 || len(nominated) > 0 {
				t.Fatalf("%v are evicted though one of those that have to leave does not; nominated: %v", evicted, nominated)
			}
			now = now.Add(phase.FirstWriteRetry)
			if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, []string{"b", "c"}) {
				t.Errorf("%v are evicted then, want the two others", evicted)
			}
		})
	}
}

// TestAnAnswerThatWasLostIsNoRefusal.
func TestAnAnswerThatWasLostIsNoRefusal(t *testing.T) {
	for _, err := range []error{nil, errors.New("EOF"), apierrors.NewTooManyRequestsError("busy"), apierrors.NewServiceUnavailable("later"), apierrors.NewTimeoutError("slow", 1)} {
		if preemption.IsRefusal(err) {
			t.Errorf("%v is a refusal", err)
		}
	}
	if err := fmt.Errorf("evicting: %w", apierrors.NewForbidden(schema.GroupResource{}, "a", nil)); !preemption.IsRefusal(err) {
		t.Errorf("%v is no refusal", err)
	}
}

// TestAWebhookThatKnowsNoDryRunIsNoRefusal.
func TestAWebhookThatKnowsNoDryRunIsNoRefusal(t *testing.T) {
	l := newRacks(t, 2)
	l.answers()
	l.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		dry := action.(clienttesting.DeleteActionImpl).DeleteOptions.DryRun
		return len(dry) > 0, nil, apierrors.NewBadRequest("admission webhook does not support dry run")
	})
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "low", 1, ofPriority(-1))
	first := l.member("a")
	l.member("b")
	if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, []string{"low"}) {
		t.Errorf("%v are evicted", evicted)
	}
}

// TestNobodyLeavesForAGangThatIsGone meanwhile.
func TestNobodyLeavesForAGangThatIsGone(t *testing.T) {
	l := newRacks(t, 2)
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "low", 1, ofPriority(-1))
	first, second := l.member("a"), l.member("b")
	l.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), "nominatedNodeName") {
			l.must(l.pods.Delete(second)) // as its job is cancelled
		}
		return true, &corev1.Pod{}, nil
	})
	if _, evicted, _ := l.refuse(first); len(evicted) > 0 {
		t.Errorf("%v are evicted for a gang of which a member is gone", evicted)
	}
	if uncounted := l.departures.UncountedPods(l.now()); len(uncounted) > 0 {
		t.Errorf("%d pods count as leaving", len(uncounted))
	}
	for !l.Settled() { // its nominations end beside that
		time.Sleep(time.Millisecond)
	}
	if ended := l.ended(); !slices.Equal(ended, []string{"a", "b"}) {
		t.Errorf("the nominations of %v end, want those of both members", ended)
	}
	for deadline := time.Now().Add(10 * time.Second); len(l.tried()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the members are not tried any more")
		}
	}
	if tried := l.tried(); !slices.Equal(tried, []string{"ns/a"}) {
		t.Errorf("%v are tried, want all members that are left", tried)
	}
}

// ended are the pods that the API server was told of last that they are nominated for no node.
func (l *lab) ended() (pods []string) {
	for _, action := range l.client.Actions() {
		if action, ok := action.(clienttesting.PatchAction); ok && strings.Contains(string(action.GetPatch()), `"nominatedNodeName":null`) {
			pods = append(pods, action.GetName())
		}
	}
	return slices.Sorted(slices.Values(pods))
}

// TestNothingIsKeptOfAGangThatIsGoneMeanwhile: of a pod that is deleted in its cycle nobody tells after it.
func TestNothingIsKeptOfAGangThatIsGoneMeanwhile(t *testing.T) {
	l := newRacks(t, 2, 0)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(2)})
	first := l.member("a")
	second := l.member("b")
	l.must(l.pods.Delete(second))
	l.must(l.pods.Delete(first))
	l.PreEnqueue(t.Context(), first)
	cs, _, _ := l.aim(first)
	l.PostFilter(t.Context(), cs, first, nil)
	if len(l.gangs.states)+len(l.gangs.places) > 0 {
		t.Errorf("%d gangs and %d pods are kept", len(l.gangs.states), len(l.gangs.places))
	}
}

// TestThePodsOfAPodGroupAreGoneThroughOnce, however many gangs have its name.
func TestThePodsOfAPodGroupAreGoneThroughOnce(t *testing.T) {
	l := newRacks(t, 20)
	l.answers()
	counting := &counting{Indexer: l.pods}
	l.pods = counting
	l.group("low", map[string]any{"minMember": int64(2)})
	for i := range 16 {
		l.running(i, fmt.Sprint("low", i), 1, ofPriority(-1), func(pod *corev1.Pod) {
			of("low")(pod)
			ownedBy(pod.UID)(pod)
		})
	}
	l.group("g", map[string]any{"minMember": int64(20)})
	var first *corev1.Pod
	for i := range 20 {
		first = l.member(fmt.Sprint("m", i))
	}
	if _, evicted, _ := l.refuse(first); len(evicted) != 16 {
		t.Fatalf("%v are evicted", evicted)
	}
	if counting.lists["ns/low"] > 1 {
		t.Errorf("the pods of the PodGroup were listed %d times", counting.lists["ns/low"])
	}
}

// counting counts how often the pods of each PodGroup are listed.
type counting struct {
	cache.Indexer
	lists map[string]int
}

func (c *counting) ByIndex(index, value string) ([]any, error) {
	if c.lists == nil {
		c.lists = map[string]int{}
	}
	c.lists[value]++
	return c.Indexer.ByIndex(index, value)
}
