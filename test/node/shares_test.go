package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/test/bounds"
)

const (
	// A card of 24 GB as its driver counts it: 24 pods of 1 GiB are more than it has.
	sharedMiB = 24564
	sharers   = 24
	fits      = 23
	shareMiB  = 1024
)

// seenWithin is how soon somebody who uses more than their share is told so.
var seenWithin = bounds.Of(5 * time.Second)

// TestShares puts pods on one card until it is full, and lets one of them use more than its share.
func TestShares(t *testing.T) {
	needNode(t)
	setSharing(t, `"memory"`)
	t.Cleanup(func() {
		setSharing(t, "null")
		eventually(t, "whole cards again", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceSharedGPU) == 0 })
	})
	cards := fmt.Sprintf("count: 1\nmemoryMiB: %d\n", sharedMiB)
	withCards(t, cards)
	eventually(t, "the slots of the shared card", func(ctx context.Context) bool {
		return allocatable(ctx, g8s.ResourceSharedGPU) == sharers && health(ctx, 0) == "Healthy"
	})
	var running []string
	for i := range sharers {
		name := fmt.Sprintf("share-%d", i)
		if err := create(t.Context(), sharing(name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := remove(context.WithoutCancel(t.Context()), name, true); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range sharers {
		name := fmt.Sprintf("share-%d", i)
		if unschedulable(t, name) {
			continue
		}
		running = append(running, name)
		lookAtShare(t, name)
	}
	if len(running) != fits {
		t.Errorf("%d of %d pods run, want %d", len(running), sharers, fits)
	}
	overrun(t, cards, running[0])
}

// setSharing sets or takes away the label of nodes whose cards are shared.
func setSharing(t *testing.T, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, g8s.LabelSharing, value)
	_, err := client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), bed.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// sharing is a pod that asks for a share of a card.
func sharing(name string) *corev1.Pod {
	pod := shape{parts: []part{{}}}.pod(name)
	pod.Annotations = map[string]string{g8s.AnnotationGPUShare: fmt.Sprintf("%dMi", shareMiB)}
	container := &pod.Spec.Containers[0]
	container.Resources.Limits = corev1.ResourceList{g8s.ResourceSharedGPU: resource.MustParse("1")}
	container.Args = []string{"report", "--name=" + reportName(name, container.Name), "--to=" + reportFolder} // a shared card is nobody's to lock
	return pod
}

func lookAtShare(t *testing.T, name string) {
	t.Helper()
	pod, err := bound(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	assigned, err := assignment(pod)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	got, err := inside.await(ctx, reportName(name, partName(0)), 1)
	if err != nil {
		t.Fatal(err, why(name))
	}
	for _, fault := range wrong(assigned, partName(0), got[0]) {
		t.Errorf("%s: %s", name, fault)
	}
	if told := got[0].Env["G8S_GPU_MEMORY_MIB"]; told != strconv.Itoa(shareMiB) {
		t.Errorf("%s was told of %q MiB, want %d", name, told, shareMiB)
	}
}

// overrun lets the driver say that a pod's process uses more of the card than its share.
func overrun(t *testing.T, cards, pod string) {
	t.Helper()
	began := time.Now()
	if err := bed.SetGPUs(fmt.Appendf(nil, "%scards: [{index: 0, processes: [{pid: %d, usedMiB: %d}]}]\n", cards, pidOn(t, pod), 2*shareMiB)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an event about the pod that uses too much", func(ctx context.Context) bool {
		list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + pod + ",reason=GPUShareExceeded",
		})
		return err == nil && len(list.Items) > 0
	})
	took := time.Since(began).Round(10 * time.Millisecond)
	t.Logf("%d of %d pods share the card; who used too much was told after %s", fits, sharers, took)
	if took > seenWithin {
		t.Errorf("want %s at the most", seenWithin)
	}
}

// pidOn returns the process of a pod's program as its node counts.
func pidOn(t *testing.T, pod string) int {
	t.Helper()
	folders, err := filepath.Glob(bed.HostPath("/proc/[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		command, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err == nil && strings.Contains(string(command), "--name="+reportName(pod, partName(0))+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(folder))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no process of pod %s", pod)
	return 0
}

// TestSharesStartAgainWithoutTheAPIServer restarts the agent while the API server does not answer: what the node's label says
// is not known then, and the container that shares a card has to start again all the same.
func TestSharesStartAgainWithoutTheAPIServer(t *testing.T) {
	needTime(t)
	const name = "share-alone"
	setSharing(t, `"memory"`)
	t.Cleanup(func() {
		setSharing(t, "null")
		eventually(t, "whole cards again", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceSharedGPU) == 0 })
	})
	eventually(t, "the slots of shared cards", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceSharedGPU) > 0 })
	pod := sharing(name)
	pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--for=6s", "--exit=3")
	if err := create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(t.Context()), name, true); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if _, err := inside.await(ctx, reportName(name, partName(0)), 1); err != nil {
		t.Fatal(err, why(name))
	}
	server := cluster.FindProcess("kube-apiserver")
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	err := (outagePart{realnode.AgentName, (*realnode.Node).StartAgent}).kill(ctx)
	if err == nil {
		_, err = inside.await(ctx, reportName(name, partName(0)), 2)
	}
	if on := server.Signal(syscall.SIGCONT); on != nil {
		t.Fatal(on)
	}
	if err != nil {
		t.Fatal(err, why(name))
	}
}
