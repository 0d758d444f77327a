package defrag

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

// soon is how long a step may take that is to fail.
const soon = 5 * time.Second

// TestChain has a pod take the place of another, which goes first to where only a small one fits.
func TestChain(t *testing.T) {
	e := newEnv(t)
	e.deploy("thirsty", first, 1, 40)
	e.deploy("modest", second, 1, 1)
	e.fill("rest-of-second", second, 7, 4)
	e.fill("rest-of-third", third, 7, 60)
	e.waits(32)
	advice := e.plan()
	if len(advice.Proposals) != 1 || len(advice.Proposals[0].Moves) != 2 {
		t.Fatalf("the advice is %+v, want two moves", advice)
	}
	if err := e.carry(t.Context(), advice.Proposals[0], patience, nil); err != nil {
		t.Fatal(err)
	}
	for app, want := range map[string]string{"eight": first, "thirsty": second, "modest": third} {
		if got := e.running(app).Spec.NodeName; got != want {
			t.Errorf("%s is on %s, want %s", app, got, want)
		}
	}
}

// TestThePodComesBack moves a pod that goes to closed nodes, and stays beside a certain other one. Policies forbid jobs to
// go there, but for exempt namespaces.
func TestThePodComesBack(t *testing.T) {
	e := newEnvIn(t, map[string]string{names.LabelPolicy: names.PolicyExempt})
	e.fill("other", first, 1, 1)
	e.deploy("one", first, 1, 1, beside("other"), toleratesAll)
	e.fill("most-of-second", second, 7, 1)
	e.fill("rest-of-third", third, 8, 1)
	eight := e.waits(1)
	err := e.carry(t.Context(), proposal(eight, first, move(e.running("one"), second)), patience, nil)
	if err == nil || !strings.Contains(err.Error(), "come back to the node") {
		t.Errorf("the error is %v, want it to say that the pod has come back", err)
	}
	if node := e.running("one").Spec.NodeName; node != first {
		t.Errorf("the pod is on %s, want it on %s again", node, first)
	}
}

// TestTheNodeFillsUp has the room for a pod be gone before it moves: it stays.
func TestTheNodeFillsUp(t *testing.T) {
	e := newEnv(t)
	e.deploy("one", first, 1, 1)
	e.fill("most-of-second", second, 7, 1)
	e.fill("rest-of-third", third, 8, 1)
	e.waits(1)
	advice, one := e.plan(), e.running("one")
	if len(advice.Proposals) != 1 || len(advice.Proposals[0].Moves) != 1 {
		t.Fatalf("the advice is %+v, want one move", advice)
	}
	e.fill("rest-of-second", second, 1, 1)
	err := e.carry(t.Context(), advice.Proposals[0], patience, nil)
	if !errors.Is(err, defrag.ErrOutdated) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("the error is %v, want that there is no room any more", err)
	}
	if now := e.running("one"); now.UID != one.UID {
		t.Error("the pod was evicted with nowhere to go")
	}
}

// TestThePodFindsNoPlace moves a pod that the scheduler puts beside a certain other one, whatever the plan says. It waits
// for as long as its place is kept for another, and no longer.
func TestThePodFindsNoPlace(t *testing.T) {
	e := newEnv(t)
	e.fill("other", first, 1, 1)
	e.deploy("one", first, 1, 1, beside("other"))
	e.fill("most-of-second", second, 7, 1)
	e.fill("rest-of-third", third, 8, 1)
	eight := e.waits(1)
	err := e.carry(t.Context(), proposal(eight, first, move(e.running("one"), second)), soon, nil)
	var late *timelimit.Error
	if !errors.As(err, &late) || !strings.Contains(err.Error(), "has no pod on another node yet") || strings.Contains(err.Error(), "rate") {
		t.Errorf("the error is %v, want it to say that the pod finds no place", err)
	}
	if node := e.running("one").Spec.NodeName; node != first {
		t.Errorf("the pod is on %s, want it on %s again", node, first)
	}
}

// TestKilledInTheMiddle ends in the moment in which a pod has been evicted: it runs again, and a new plan goes on.
func TestKilledInTheMiddle(t *testing.T) {
	e := newEnv(t)
	e.deploy("one", first, 1, 1)
	e.deploy("two", first, 2, 1)
	e.fill("most-of-second", second, 7, 1)
	e.fill("most-of-third", third, 6, 1)
	e.waits(1)
	ctx, kill := context.WithCancel(t.Context())
	advice := e.plan()
	if len(advice.Proposals) != 1 || len(advice.Proposals[0].Moves) != 2 {
		t.Fatalf("the advice is %+v, want two moves", advice)
	}
	if err := e.carry(ctx, advice.Proposals[0], patience, func(string) { kill() }); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that it was canceled", err)
	}
	e.running("one")
	e.running("two")
	for range 3 { // the one that was evicted may have come back
		if advice = e.plan(); len(advice.Proposals) != 1 {
			t.Fatalf("the advice is %+v, want moves", advice)
		}
		err := e.carry(t.Context(), advice.Proposals[0], patience, nil)
		if err == nil {
			break
		}
		t.Log(err)
	}
	if node := e.running("eight").Spec.NodeName; node != first {
		t.Errorf("the pod of 8 GPUs is on %s, want %s", node, first)
	}
	e.running("one")
	e.running("two")
}

// TestADisruptionBudgetIsKept has a budget that was made after the plan.
func TestADisruptionBudgetIsKept(t *testing.T) {
	e := newEnv(t)
	eight := e.waitsForOne()
	one := e.running("one")
	_, err := client.PolicyV1().PodDisruptionBudgets(e.namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "one"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = e.carry(t.Context(), proposal(eight, first, move(one, second)), soon, nil)
	if err == nil || !strings.Contains(err.Error(), "disruption budget allows none") {
		t.Errorf("the error is %v, want it to name the budget", err)
	}
	if now := e.running("one"); now.UID != one.UID {
		t.Error("the pod was evicted against its budget")
	}
}

// TestThePodHasEnded has a plan for a pod that is another one by now.
func TestThePodHasEnded(t *testing.T) {
	e := newEnv(t)
	eight := e.waitsForOne()
	one := e.running("one")
	gone := move(one, second)
	gone.UID = "another"
	if err := e.carry(t.Context(), proposal(eight, first, gone), soon, nil); !errors.Is(err, defrag.ErrOutdated) {
		t.Errorf("the error is %v, want it to ask for a new plan", err)
	}
	if now := e.running("one"); now.UID != one.UID {
		t.Error("another pod was evicted than planned")
	}
}

// TestAPodGoesElsewhere has the scheduler choose another node than the plan: nothing more is moved by that plan.
func TestAPodGoesElsewhere(t *testing.T) {
	e := newEnv(t)
	e.fill("other", first, 1, 1)
	e.fill("other-of-third", third, 1, 1, label("app", "other"))
	e.deploy("one", first, 1, 1, beside("other"))
	e.deploy("two", first, 1, 1)
	e.fill("most-of-second", second, 7, 1)
	e.fill("most-of-third", third, 5, 1)
	eight := e.waits(1)
	two := e.running("two")
	err := e.carry(t.Context(), proposal(eight, first, move(e.running("one"), second), move(two, third)), patience, nil)
	if !errors.Is(err, defrag.ErrOutdated) {
		t.Errorf("the error is %v, want that the pod went elsewhere", err)
	}
	if node := e.running("one").Spec.NodeName; node != third {
		t.Errorf("the pod is on %s, want %s", node, third)
	}
	if now := e.running("two"); now.UID != two.UID {
		t.Error("the plan went on")
	}
}

// TestNodesAreOpenedThatSomebodyLeftClosed has been killed by a signal that nobody can catch.
func TestNodesAreOpenedThatSomebodyLeftClosed(t *testing.T) {
	e := newEnv(t)
	now := time.Now()
	for node, until := range map[string]time.Time{first: now.Add(-time.Minute), second: now.Add(time.Minute)} {
		e.taint(node, corev1.Taint{Key: names.TaintMoving, Value: strconv.FormatInt(until.Unix(), 10), Effect: corev1.TaintEffectNoSchedule})
		defer e.taint(node)
	}
	carrier := defrag.Carrier{Client: client, Now: func() time.Time { return now }, Report: func(text phrase.Text) { t.Log(text) }}
	if err := carrier.OpenNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{second}, e.closed()); diff != "" {
		t.Errorf("closed nodes, of which one is still worked on (-want +got):\n%s", diff)
	}
}
