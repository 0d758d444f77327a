package node

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
)

// failing starts a pod with two cards whose container fails after some seconds, so that it is started again by whoever is there.
func failing(t *testing.T, name string) gpu.Assignment {
	t.Helper()
	cards := choice(2, 6)
	pod := shape{parts: []part{{cards: 2}}}.pod(name)
	pod.Spec.SchedulerName = "by-hand"
	pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--for=8s", "--exit=3", "--first="+sharedFolder+"/"+name)
	started(t, pod, cards)
	return cards
}

// withoutAgent ends the agent until the test is over, and starts kubelet again, after something was done to what it remembers.
func withoutAgent(t *testing.T, between func() error) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if ended(cluster.FindProcess(realnode.AgentName)) {
			if err := bed.StartAgent(ctx); err != nil {
				t.Error(err)
			}
		}
		eventually(t, "the cards", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceGPU) == 8 })
	})
	for _, name := range []string{realnode.AgentName, realnode.KubeletName} {
		if err := cluster.FindProcess(name).Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := between(); err != nil {
		t.Fatal(err)
	}
	if err := bed.StartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAContainerStartsAgainWithoutTheAgent: a kubelet that has restarted, and has not heard of the agent yet, asks nobody. What the
// runtime knows of the container are its cards.
func TestAContainerStartsAgainWithoutTheAgent(t *testing.T) {
	needTime(t)
	const name = "unasked"
	cards := failing(t, name)
	withoutAgent(t, func() error { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := inside.await(ctx, reportName(name, partName(0)), 2)
	if err != nil {
		t.Fatal(err, why(name))
	}
	for _, report := range got {
		for _, fault := range wrong(cards, partName(0), report) {
			t.Error(fault)
		}
	}
	if !ended(cluster.FindProcess(realnode.AgentName)) {
		t.Error("the agent was there, so this shows nothing")
	}
}

// TestAKubeletThatForgotStartsAContainerWithoutCards, as it knows nothing of the resource then, and nobody is asked. The agent tells of
// it as soon as it is back.
func TestAKubeletThatForgotStartsAContainerWithoutCards(t *testing.T) {
	needTime(t)
	const name = "forgotten"
	failing(t, name)
	withoutAgent(t, func() error {
		return os.Remove(bed.HostPath(realnode.KubeletDir + "/device-plugins/" + checkpoint.FileName))
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := inside.await(ctx, reportName(name, partName(0)), 2)
	if err != nil {
		t.Fatal(err, why(name))
	}
	if !slices.ContainsFunc(got, func(r probe.Report) bool { return len(r.Devices) == 0 }) {
		t.Skip("kubelet has not started the container without cards, so there is nothing to tell")
	}
	if err := bed.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an event on the pod", func(ctx context.Context) bool {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=GPURecordDiffers,involvedObject.name=" + name})
		return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "kubelet has forgotten the slots") })
	})
}
