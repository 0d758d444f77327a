package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/oracle"
)

// cardsOf waits until a pod is bound, and returns the cards that are written on it.
func (e *env) cardsOf(pod string) gpu.Assignment {
	e.Helper()
	bound := e.waitPod(pod, "to be bound", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	assignment, err := gpu.ParseAssignment(bound.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		e.Fatalf("reading the cards of pod %s: %v", pod, err)
	}
	return assignment
}

// card returns the UUID of the only card that a pod of one container has.
func (e *env) card(pod string) string {
	e.Helper()
	cards := e.cardsOf(pod)["main"]
	if len(cards) != 1 {
		e.Fatalf("pod %s has the cards %+v, want one", pod, cards)
	}
	return cards[0].UUID
}

// record writes down what happens to all pods and nodes. The function it returns ends that, and fails the test for each
// promise that was broken at any revision.
func (e *env) record() func() oracle.History {
	e.Helper()
	recorder, err := oracle.Watch(e.Context(), e.client)
	if err != nil {
		e.Fatal(err)
	}
	return func() oracle.History {
		e.Helper()
		ctx, cancel := context.WithTimeout(e.Context(), patience)
		defer cancel()
		history, err := recorder.Stop(ctx)
		if err != nil {
			e.Fatal(err)
		}
		for _, violation := range oracle.Check(history) {
			e.Error(violation)
		}
		return history
	}
}

func TestCardsAreWrittenOnThePodByContainer(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("dgx").GPUs(8, "V100-32G").
		Annotate(names.AnnotationInventory, fixture.DGX1("dgx").Annotation(t)).Obj())
	e.createPods(fixture.Pod("pod").GPUs(2).Container("second", 2).Container("idle", 0).InitContainer("download", 3).Obj())
	device := func(card int) gpu.Device { return gpu.Device{UUID: fixture.UUID("dgx", card), Index: card} }
	want := gpu.Assignment{
		// Each has a pair of two NVLinks, of the four cards that are linked best; the init container uses them before.
		"main":     {device(0), device(3)},
		"second":   {device(1), device(2)},
		"download": {device(0), device(2), device(3)},
	}
	if diff := cmp.Diff(want, e.cardsOf("pod")); diff != "" {
		t.Errorf("cards (-want +got):\n%s", diff)
	}
}

// TestNoCardIsGivenTwice places 100 pods of all kinds at once, on nodes that report their cards and nodes that do not.
func TestNoCardIsGivenTwice(t *testing.T) {
	e := newEnv(t)
	check := e.record()
	for i := range 16 {
		name := fmt.Sprintf("dgx-%d", i)
		node := fixture.Node(name).GPUs(8, "V100-32G").SharedGPUs(8, 100)
		if i%4 > 0 {
			node.Annotate(names.AnnotationInventory, fixture.DGX1(name).Annotation(t))
		}
		e.createNodes(node.Obj())
	}
	const pods = 100
	var submitted []*corev1.Pod
	for i := range pods {
		pod := fixture.Pod(fmt.Sprintf("pod-%d", i))
		switch i % 5 {
		case 0:
			pod.SharedGPUs(2, "10Gi")
		case 1:
			pod.GPUs(1).Container("second", 1)
		default:
			pod.GPUs(1)
		}
		submitted = append(submitted, pod.Obj())
	}
	e.createPods(submitted...)
	e.waitAllBound(pods)
	history := check()
	if got := len(history.Bindings()); got != pods {
		t.Errorf("the history has %d bindings, want %d", got, pods)
	}
}

// TestSharesAreCountedInMiB puts pods of 2000 MiB on a card of 46068 MiB: 23 fit, and the 24th would not by 1932 MiB.
func TestSharesAreCountedInMiB(t *testing.T) {
	e := newEnv(t)
	check := e.record()
	e.createNodes(fixture.Node("l40s").SharedGPUs(1, 100).
		Annotate(names.AnnotationInventory, fixture.Cards("l40s", 46068).Annotation(t)).Obj())
	const fit = 23
	for i := range fit {
		e.createPods(fixture.Pod(fmt.Sprintf("pod-%d", i)).SharedGPUs(1, "2000Mi").Obj())
	}
	e.waitAllBound(fit)
	e.createPods(fixture.Pod("last").SharedGPUs(1, "2000Mi").Obj())
	if message, want := e.waitUnschedulable("last"), string(reason.ReasonForCode(gpu.TooFewShareable).Text); !strings.Contains(message, want) {
		t.Errorf("the scheduler says %q, want %q", message, want)
	}
	if bound := e.countBound(); bound != fit {
		t.Errorf("%d pods run, want %d", bound, fit)
	}
	e.createPods(fixture.Pod("small").SharedGPUs(1, "68Mi").Obj()) // the rest, to the last MiB
	e.waitBound("small")
	began := time.Now()
	e.finish("pod-0")
	e.waitBound("last")
	if took := time.Since(began); took > soon {
		t.Errorf("the last pod was bound %v after another had ended, want at most %v", took, soon)
	}
	check()
}

// TestTheDriverKeepsItsPartOfSharedCards: of a card of 46068 MiB whose driver's part is assumed, two pods get 22528 MiB each, and no two
// get 23034. A pod that an older scheduler placed beside stays, and takes its share of what there is.
func TestTheDriverKeepsItsPartOfSharedCards(t *testing.T) {
	e := newEnv(t)
	check := e.record()
	for _, name := range []string{"halves", "less"} {
		e.createNodes(fixture.Node(name).Pool(name).SharedGPUs(1, 100).Label(names.LabelMemory, "46068Mi").Obj())
	}
	e.createPods(
		fixture.Pod("less-0").Pool("less").SharedGPUs(1, "22528Mi").Obj(), fixture.Pod("less-1").Pool("less").SharedGPUs(1, "22528Mi").Obj(),
		fixture.Pod("half-0").Pool("halves").SharedGPUs(1, "23034Mi").Obj(),
	)
	e.waitAllBound(3)
	e.createPods(fixture.Pod("half-1").Pool("halves").SharedGPUs(1, "23034Mi").Obj())
	if message, want := e.waitUnschedulable("half-1"), string(reason.ReasonForCode(gpu.TooFewShareable).Text); !strings.Contains(message, want) {
		t.Errorf("the scheduler says %q, want %q", message, want)
	}
	e.finish("half-0")
	e.waitBound("half-1")
	check()
}

func TestUnequalCardsOfOneNode(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("mixed").GPUs(4, "Mixed").
		Annotate(names.AnnotationInventory, fixture.Cards("mixed", 24576, 81920, 24576, 81920).Annotation(t)).Obj())
	large := fixture.Pod("large").GPUs(1).Annotate(names.AnnotationGPUMemoryMin, "40Gi").Obj()
	second, third := large.DeepCopy(), large.DeepCopy()
	second.Name, third.Name = "second", "third"
	e.runOneByOne(large, second)
	got := []string{e.card("large"), e.card("second")}
	slices.Sort(got)
	if diff := cmp.Diff([]string{fixture.UUID("mixed", 1), fixture.UUID("mixed", 3)}, got); diff != "" {
		t.Errorf("cards of the pods that need 40 GiB (-want +got):\n%s", diff)
	}
	e.createPods(third, fixture.Pod("huge").GPUs(1).Annotate(names.AnnotationGPUMemoryMin, "100Gi").Obj())
	for pod, code := range map[string]gpu.Code{"third": gpu.TooFewFree, "huge": gpu.TooFewMemory} {
		want := string(reason.ReasonForCode(code).Text)
		if message := e.waitUnschedulable(pod); !strings.Contains(message, want) {
			t.Errorf("of pod %s the scheduler says %q, want %q", pod, message, want)
		}
	}
	e.runOneByOne(fixture.Pod("any").GPUs(2).Obj()) // those that are too small for the others
}

// TestABrokenCardGetsNoNewPod breaks a card that is free and one in use, and mends the free one again.
func TestABrokenCardGetsNoNewPod(t *testing.T) {
	e := newEnv(t)
	cards := func() *fixture.CardsBuilder { return fixture.Cards("node", 81920, 81920, 81920, 81920) }
	report := func(b *fixture.CardsBuilder) {
		e.updateNode("node", func(node *corev1.Node) { node.Annotations[names.AnnotationInventory] = b.Annotation(t) })
	}
	e.createNodes(fixture.Node("node").GPUs(4, "A100-80G").Annotate(names.AnnotationInventory, cards().Annotation(t)).Obj())
	e.runOneByOne(fixture.Pod("runs").GPUs(1).Obj())
	inUse := e.card("runs")
	broken := []int{0, 1}
	if !slices.Contains([]string{fixture.UUID("node", 0), fixture.UUID("node", 1)}, inUse) {
		t.Fatalf("the first pod has card %s, so the cards that break are not one in use and one free", inUse)
	}
	report(cards().Unhealthy(broken...))

	// A pod that comes before the scheduler knows may get the card; it is gone again then. The others may not.
	for deadline, i := time.Now().Add(soon), 0; ; i++ {
		late, probe := time.Now().After(deadline), fmt.Sprintf("probe-%d", i)
		e.runOneByOne(fixture.Pod(probe).GPUs(1).Obj())
		if card := e.card(probe); late && (card == fixture.UUID("node", 0) || card == fixture.UUID("node", 1)) {
			t.Errorf("%v after card %s broke, a pod got it", soon, card)
		}
		e.deletePod(probe)
		if late {
			break
		}
	}
	e.runOneByOne(fixture.Pod("a").GPUs(1).Obj(), fixture.Pod("b").GPUs(1).Obj())
	e.createPods(fixture.Pod("waits").GPUs(1).Obj(), fixture.Pod("three").GPUs(3).Obj())
	for pod, code := range map[string]gpu.Code{"waits": gpu.TooFewFree, "three": gpu.TooFewHealthy} {
		want := string(reason.ReasonForCode(code).Text)
		if message := e.waitUnschedulable(pod); !strings.Contains(message, want) {
			t.Errorf("of pod %s the scheduler says %q, want %q", pod, message, want)
		}
	}
	if card := e.card("runs"); card != inUse {
		t.Errorf("the pod that runs has card %s, and had %s before it broke", card, inUse)
	}

	began := time.Now()
	report(cards())
	e.waitBound("waits")
	if took := time.Since(began); took > soon {
		t.Errorf("the pod was bound %v after the card was mended, want at most %v", took, soon)
	}
}

// TestARestartKeepsTheChoices kills the scheduler while half of the cards are given away. The next one knows them from
// the pods alone.
func TestARestartKeepsTheChoices(t *testing.T) {
	e := newEnv(t)
	check := e.record()
	const nodes, half = 4, 16
	for i := range nodes {
		name := fmt.Sprintf("dgx-%d", i)
		e.createNodes(fixture.Node(name).GPUs(8, "V100-32G").Annotate(names.AnnotationInventory, fixture.DGX1(name).Annotation(t)).Obj())
	}
	submit := func(first, count int) {
		for i := range count {
			e.createPods(fixture.Pod(fmt.Sprintf("pod-%d", first+i)).GPUs(1).Obj())
		}
	}
	submit(0, half)
	before := map[string]string{}
	for _, pod := range e.waitAllBound(half) {
		before[pod.Name] = pod.Annotations[names.AnnotationGPUDevices]
	}
	endScheduler(t, (*sandbox.Process).Kill)
	restartScheduler(t, sandbox.SchedulerOptions{})
	submit(half, nodes*8-half)
	for _, pod := range e.waitAllBound(nodes * 8) {
		if was, ok := before[pod.Name]; ok && pod.Annotations[names.AnnotationGPUDevices] != was {
			t.Errorf("pod %s has %s, and had %s before", pod.Name, pod.Annotations[names.AnnotationGPUDevices], was)
		}
	}
	if got := len(check().Bindings()); got != nodes*8 {
		t.Errorf("the history has %d bindings, want %d", got, nodes*8)
	}
}
