package node

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// TestKubeletGivesOneSlotTwice has kubelet forget which slot it is giving out (kubernetes#137534): somebody lists PodResources while it
// asks the agent about a pod, and another pod has ended since it began to. The next pod may get that slot, too, and each of the two has
// the cards that were chosen for it, also when it starts again.
func TestKubeletGivesOneSlotTwice(t *testing.T) {
	needTime(t)
	const rounds = 4 // kubelet takes seven of eight slots at random
	for round := range rounds {
		twice := false
		t.Run(fmt.Sprint(round), func(t *testing.T) { twice = slotTwice(t, fmt.Sprintf("twice-%d-", round)) })
		if twice || t.Failed() {
			return
		}
	}
	t.Skipf("in %d rounds kubelet gave no slot twice", rounds)
}

// slotTwice reports whether kubelet gave a slot twice.
func slotTwice(t *testing.T, prefix string) bool {
	t.Helper()
	ending := shape{parts: []part{{cards: 1}}, linger: 3 * time.Second}.pod(prefix + "ending")
	ending.Spec.SchedulerName = "by-hand"
	started(t, ending, choice(0))
	agent := cluster.FindProcess(realnode.AgentName)
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Signal(syscall.SIGCONT) })
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), ending.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	first, second := prefix+"first", prefix+"second"
	place(t, first, part{cards: 1, restarts: true}, choice(1), "--for=10s")
	if err := remove(t.Context(), ending.Name, false); err != nil { // waits until it is gone
		t.Fatal(err)
	}
	listPodResources(t)
	if err := agent.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	seesItsCards(t, first, choice(1), 1)
	place(t, second, part{cards: 7}, choice(0, 2, 3, 4, 5, 6, 7))
	seesItsCards(t, second, choice(0, 2, 3, 4, 5, 6, 7), 1)
	has, also := slotsOf(t, first), slotsOf(t, second)
	if !slices.ContainsFunc(has, func(slot string) bool { return slices.Contains(also, slot) }) {
		return false
	}
	t.Logf("kubelet gave %v and %v", has, also)
	seesItsCards(t, first, choice(1), 2)
	return true
}

// place makes a pod of one container, and binds it with some cards.
func place(t *testing.T, name string, p part, cards gpu.Assignment, args ...string) {
	t.Helper()
	pod := shape{parts: []part{p}}.pod(name)
	pod.Spec.SchedulerName = "by-hand"
	pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, args...)
	if err := create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(t.Context()), name, false); err != nil {
			t.Error(err)
		}
	})
	if err := bind(t.Context(), name, cards); err != nil {
		t.Fatal(err)
	}
}

// seesItsCards waits until a pod's container has started so often, and looks from inside each time.
func seesItsCards(t *testing.T, name string, cards gpu.Assignment, starts int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := inside.await(ctx, reportName(name, partName(0)), starts)
	if err != nil {
		t.Fatal(err, why(name))
	}
	for _, report := range got {
		for _, fault := range wrong(cards, partName(0), report) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// slotsOf returns the slots that kubelet has written down for a pod.
func slotsOf(t *testing.T, name string) []string {
	t.Helper()
	pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(bed.HostPath(realnode.KubeletDir + "/device-plugins/" + checkpoint.FileName))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := checkpoint.Parse(data, cdi.Kind, g8s.ResourceGPU)
	if err != nil {
		t.Fatal(err)
	}
	for i := range claims {
		if claims[i].Pod == pod.UID {
			return claims[i].Slots
		}
	}
	return nil
}

// listPodResources asks kubelet for all pods, as monitoring does.
func listPodResources(t *testing.T) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+bed.HostPath(realnode.KubeletDir+"/pod-resources/kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := podresources.NewPodResourcesListerClient(conn).List(t.Context(), &podresources.ListPodResourcesRequest{}); err != nil {
		t.Fatal(err)
	}
}
