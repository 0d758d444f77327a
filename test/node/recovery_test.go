package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
	"g8s.host/gpu-scheduler/test/bounds"
)

// movedWithin is how soon a job runs elsewhere whose card has fallen off the bus: the 10 s in which it may end by itself, the end of its
// pod, and a start.
var movedWithin = bounds.Of(25 * time.Second)

// withController runs the controller of the manifests for the rest of the test, with its own rights and its defaults.
func withController(t *testing.T) {
	t.Helper()
	if err := cluster.InstallController(t.Context()); err != nil {
		t.Fatal(err)
	}
	controller, err := cluster.StartController(t.Context(), sandbox.ControllerOptions{Args: []string{"--leader-elect=false"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := controller.Kill(); err != nil {
			t.Error(err)
		}
		if said, err := os.ReadFile(controller.LogPath()); t.Failed() && err == nil {
			t.Logf("gpu-controller said:\n%s", said)
		}
	})
}

// runningPod waits until a pod with some labels runs that is not the one before it.
func runningPod(t *testing.T, labels string, before *corev1.Pod) (found *corev1.Pod) {
	t.Helper()
	eventually(t, "a pod of "+labels+" to run", func(ctx context.Context) bool {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
		if err != nil {
			return false
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if (before == nil || pod.UID != before.UID) && pod.DeletionTimestamp == nil && isRunning(ctx, pod.Name) {
				found = pod
			}
		}
		return found != nil
	})
	return found
}

// whenOf says when what happened to a pod.
func whenOf(pod *corev1.Pod, since time.Time) (text string) {
	for _, condition := range pod.Status.Conditions {
		text += fmt.Sprintf("%s=%s %s, ", condition.Type, condition.Status, condition.LastTransitionTime.Sub(since).Round(time.Second))
	}
	return strings.TrimSuffix(text, ", ")
}

func holds(pod *corev1.Pod, card string) bool {
	return slices.ContainsFunc(gpu.DevicesOf(pod), func(d gpu.Device) bool { return d.UUID == card })
}

// moved waits for the event that says why a pod left.
func moved(t *testing.T, pod *corev1.Pod, texts ...string) {
	t.Helper()
	eventually(t, "the event of pod "+pod.Name, func(ctx context.Context) bool {
		list, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=MovedFromBrokenGPU,regarding.name=" + pod.Name})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(list.Items[0].Note, text) })
	})
}

// TestAJobGoesOnElsewhereWhenItsCardIsBroken: the agent sees that a card has fallen off the bus, the controller has the pod leave that runs
// on it, and the job's next pod sees other cards, from inside. It costs no retry.
func TestAJobGoesOnElsewhereWhenItsCardIsBroken(t *testing.T) {
	needNode(t)
	withController(t)
	submit(t, "moves", 2)
	pod := runningPod(t, g8s.LabelJob+"=moves", nil)
	if len(gpu.DevicesOf(pod)) != 2 {
		t.Fatalf("the pod holds %+v", gpu.DevicesOf(pod))
	}
	sick := gpu.DevicesOf(pod)[1]
	began := time.Now()
	withCards(t, string(realnode.DefaultGPUs())+fmt.Sprintf("events: [{id: %d, uuid: %s, xid: 79}]\n", began.UnixNano(), sick.UUID))
	next := runningPod(t, g8s.LabelJob+"=moves", pod)
	took := time.Since(began)
	t.Logf("the job runs elsewhere %s after the card fell off the bus; its next pod was made after %s, and has %s", took.Round(100*time.Millisecond),
		next.CreationTimestamp.Sub(began).Round(time.Second), whenOf(next, began))
	if took > movedWithin {
		t.Errorf("want %s at the most", movedWithin)
	}
	moved(t, pod, sick.UUID, "Xid79")

	var printed probe.Report
	eventually(t, "the next pod to print its cards", func(context.Context) bool {
		return json.Unmarshal([]byte(gpuctl(t, "logs", "moves")), &printed) == nil
	})
	assigned, err := assignment(next)
	if err != nil || len(assigned) != 1 {
		t.Fatalf("the next pod has %+v, error %v", assigned, err)
	}
	for container := range assigned {
		for _, fault := range wrong(assigned, container, printed) {
			t.Error(fault)
		}
	}
	if slices.Contains(printed.UUIDs(), sick.UUID) || len(printed.UUIDs()) != 2 {
		t.Errorf("the next pod sees %v, want two cards, and not the broken one, %s", printed.UUIDs(), sick.UUID)
	}
	jobs, err := client.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: g8s.LabelJob + "=moves"})
	if err != nil || len(jobs.Items) != 1 || jobs.Items[0].Status.Failed != 0 {
		t.Errorf("the job has paid for it: %+v, error %v", jobs.Items, err)
	}
}

// TestAServiceThatCannotStartAgainGoesOnElsewhere: its card does not answer any more, which may pass, so that it runs on. Then it ends, and
// the agent refuses to start it there: only now it leaves.
func TestAServiceThatCannotStartAgainGoesOnElsewhere(t *testing.T) {
	needTime(t)
	withController(t)
	const name = "stays"
	pod := shape{parts: []part{{cards: 1}}}.pod(name)
	// As users may have it: without a folder of the node.
	pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts, pod.Spec.Containers[0].Env = nil, nil, nil
	pod.Spec.Containers[0].Args = []string{"report", "--for=25s", "--exit=3"}
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec,
		}},
	}
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		background := metav1.DeletePropagationBackground
		if err := client.AppsV1().Deployments(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Error(err)
		}
		eventually(t, "its pods to go", func(ctx context.Context) bool {
			list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			return err == nil && len(list.Items) == 0
		})
	})
	first := runningPod(t, "app="+name, nil)
	sick := gpu.DevicesOf(first)[0]
	withCards(t, string(realnode.DefaultGPUs())+fmt.Sprintf("cards: [{index: %d, lost: true}]\n", sick.Index))
	eventually(t, "the card to be lost", func(ctx context.Context) bool { return health(ctx, sick.Index) == "Lost" })
	sleep(t.Context(), 12*time.Second)
	if !isRunning(t.Context(), first.Name) {
		t.Errorf("it was ended while it ran: %v", why(first.Name))
	}
	next := runningPod(t, "app="+name, first)
	if holds(next, sick.UUID) {
		t.Errorf("the next pod has the broken card: %+v", gpu.DevicesOf(next))
	}
	moved(t, first, sick.UUID, "cannot start")
}
