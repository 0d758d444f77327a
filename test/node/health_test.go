package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	uuidgen "k8s.io/apimachinery/pkg/util/uuid"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/test/bounds"
)

// outWithin is how soon a card that fell ill may get no new pod.
var outWithin = bounds.Of(2 * time.Second)

// podsOf returns the names of a job's pods.
func podsOf(ctx context.Context, job string) []string {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: g8s.LabelJob + "=" + job})
	if err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// withCards has the agent know other cards, for the rest of the test.
func withCards(t *testing.T, config string) {
	t.Helper()
	if err := bed.SetGPUs([]byte(config)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := bed.SetGPUs(realnode.DefaultGPUs()); err != nil {
			t.Error(err)
		}
		// An agent that starts again knows the faults that only a restart of the machine mends.
		if err := bed.SetBootID(string(uuidgen.NewUUID())); err != nil {
			t.Error(err)
		}
		if err := (outagePart{realnode.AgentName, (*realnode.Node).StartAgent}).kill(ctx); err != nil {
			t.Error(err)
		}
		for until := time.Now().Add(patience); !allHealthy(ctx) || allocatable(ctx, g8s.ResourceGPU) != 8; {
			if time.Now().After(until) {
				t.Error("the cards have not come back")
				return
			}
			sleep(ctx, pollEvery)
		}
	})
}

// health is what the cluster knows of a card, "" when it knows no such card.
func health(ctx context.Context, index int) string {
	node, err := client.CoreV1().Nodes().Get(ctx, bed.Name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	known, err := gpu.ParseInventory(node.Annotations[g8s.AnnotationInventory])
	if err != nil {
		return ""
	}
	for i := range known.GPUs {
		if known.GPUs[i].Index == index {
			return known.GPUs[i].Health
		}
	}
	return ""
}

func allHealthy(ctx context.Context) bool {
	for i := range 8 {
		if health(ctx, i) != gpu.Healthy {
			return false
		}
	}
	return true
}

// TestACardThatFallsOffTheBusGetsNoPod lets the driver report XID 79 of a card that a pod has.
func TestACardThatFallsOffTheBusGetsNoPod(t *testing.T) {
	needNode(t)
	const sick = 2
	holder := shape{parts: []part{{cards: 1}}}.pod("sick-holder")
	holder.Spec.SchedulerName = "by-hand"
	started(t, holder, choice(sick))

	began := time.Now()
	withCards(t, string(realnode.DefaultGPUs())+fmt.Sprintf("events: [{id: %d, uuid: %s, xid: 79}]\n", began.UnixNano(), uuid(sick)))
	eventually(t, "the inventory to say what is wrong", func(ctx context.Context) bool { return health(ctx, sick) == "Xid79" })
	known := time.Since(began)
	eventually(t, "kubelet to count one card less", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceGPU) == 7 })
	counted := time.Since(began)
	t.Logf("the inventory said it after %s, kubelet after %s (it writes its status every 2 s)",
		known.Round(10*time.Millisecond), counted.Round(10*time.Millisecond))
	if known > outWithin {
		t.Errorf("want %s at the most", outWithin)
	}
	condition := conditionOf(t, g8s.ConditionGPUsHealthy)
	if condition.Status != corev1.ConditionFalse || !strings.Contains(condition.Message, uuid(sick)) {
		t.Errorf("the node's condition is %+v", condition)
	}

	// Seven more pods: six get the cards that are well and free, one waits.
	w := &wave{prefix: "sick"}
	var waiting []string
	for i := range 7 {
		name := fmt.Sprintf("sick-%d", i)
		s := shape{parts: []part{{cards: 1}}}
		if err := create(t.Context(), s.pod(name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := remove(context.WithoutCancel(t.Context()), name, false); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 7 {
		name := fmt.Sprintf("sick-%d", i)
		if unschedulable(t, name) {
			waiting = append(waiting, name)
			continue
		}
		if err := w.look(t.Context(), name, shape{parts: []part{{cards: 1}}}); err != nil {
			t.Error(err)
		}
		if pod, err := bound(t.Context(), name); err != nil || strings.Contains(pod.Annotations[g8s.AnnotationGPUDevices], uuid(sick)) {
			t.Errorf("pod %s has %s, error %v", name, pod.Annotations[g8s.AnnotationGPUDevices], err)
		}
	}
	w.report(t, time.Since(began))
	if len(waiting) != 1 {
		t.Errorf("%v wait, want one", waiting)
	}

	submit(t, "eight", 8)
	eventually(t, "gpuctl to say why a job for all eight cards waits", func(context.Context) bool {
		return strings.Contains(gpuctl(t, "why", "eight"), "7 of 8 healthy")
	})
	if text := gpuctl(t, "describe", "node", bed.Name); !strings.Contains(text, "1 unhealthy") {
		t.Errorf("gpuctl describe node does not say it:\n%s", text)
	}
}

// TestARunningJobIsToldOfItsBrokenCard goes the way of a user whose job runs when one of its cards falls off the bus.
func TestARunningJobIsToldOfItsBrokenCard(t *testing.T) {
	needNode(t)
	submit(t, "struck", 2)
	var pod *corev1.Pod
	eventually(t, "the job to run", func(ctx context.Context) bool {
		names := podsOf(ctx, "struck")
		if len(names) != 1 || !isRunning(ctx, names[0]) {
			return false
		}
		var err error
		pod, err = client.CoreV1().Pods(namespace).Get(ctx, names[0], metav1.GetOptions{})
		return err == nil
	})
	held := gpu.DevicesOf(pod)
	if len(held) != 2 {
		t.Fatalf("the pod holds %+v", held)
	}
	sick := held[1]
	if text := gpuctl(t, "why", "struck"); strings.Contains(text, "BrokenGPU") {
		t.Fatalf("gpuctl why tells of a broken card before there is one:\n%s", text)
	}
	withCards(t, string(realnode.DefaultGPUs())+fmt.Sprintf("events: [{id: %d, uuid: %s, xid: 79}]\n", time.Now().UnixNano(), sick.UUID))
	eventually(t, "gpuctl why to tell of it", func(context.Context) bool {
		text := gpuctl(t, "why", "struck")
		return strings.Contains(text, "BrokenGPU") && strings.Contains(text, sick.UUID) && strings.Contains(text, "fallen off the bus (XID 79)") &&
			strings.Contains(text, "kubectl delete pod "+pod.Name)
	})
	for what, want := range map[string][]string{
		"describe job struck":       {held[0].UUID, sick.UUID, "Xid79", "fallen off the bus"},
		"describe node " + bed.Name: {sick.UUID, "fallen off the bus", ", since 20", "restart it"},
	} {
		text := gpuctl(t, strings.Fields(what)...)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("gpuctl %s does not say %q:\n%s", what, part, text)
			}
		}
	}
	if before := isRunning(t.Context(), pod.Name); !before {
		t.Error("the job does not run any more")
	}
}

// unschedulable waits until the scheduler has decided about a pod, and says whether it has no place for it.
func unschedulable(t *testing.T, name string) bool {
	t.Helper()
	no := false
	eventually(t, "the scheduler to decide about "+name, func(ctx context.Context) bool {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				no = condition.Status == corev1.ConditionFalse
				return true
			}
		}
		return false
	})
	return no
}

func conditionOf(t *testing.T, kind corev1.NodeConditionType) corev1.NodeCondition {
	t.Helper()
	var found corev1.NodeCondition
	eventually(t, "the node's condition "+string(kind), func(ctx context.Context) bool {
		node, err := client.CoreV1().Nodes().Get(ctx, bed.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == kind {
				found = condition
				return true
			}
		}
		return false
	})
	return found
}

// TestAnErrorOfAProgramTakesNoCardOut: XID 31 and its like come from what a program does.
func TestAnErrorOfAProgramTakesNoCardOut(t *testing.T) {
	needNode(t)
	withCards(t, string(realnode.DefaultGPUs())+fmt.Sprintf("events: [{id: %d, uuid: %s, xid: 31}]\n", time.Now().UnixNano(), uuid(1)))
	for until := time.Now().Add(2 * outWithin); time.Now().Before(until); sleep(t.Context(), 200*time.Millisecond) {
		if got, count := health(t.Context(), 1), allocatable(t.Context(), g8s.ResourceGPU); got != gpu.Healthy || count != 8 {
			t.Fatalf("the card is %s, and %d cards are allocatable", got, count)
		}
	}
}
