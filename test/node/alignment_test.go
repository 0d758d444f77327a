package node

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// TestANodeWhoseKubeletIsAskedToAlign says that cards are not aligned, and goes on serving: kubelet admits the pod, as slots are of no NUMA node.
func TestANodeWhoseKubeletIsAskedToAlign(t *testing.T) {
	needTime(t)
	ctx := t.Context()
	settings := kubeletSettings(t)
	before, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	restartWith := func(ctx context.Context, data []byte) {
		t.Helper()
		if err := os.WriteFile(settings, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cluster.FindProcess(realnode.KubeletName).Kill(); err != nil {
			t.Fatal(err)
		}
		if err := bed.StartKubelet(ctx); err != nil {
			t.Fatal(err)
		}
		sleep(ctx, 2*time.Second) // kubelet writes that it counts none, before the agent has registered
	}
	restartWith(ctx, append([]byte("topologyManagerPolicy: single-numa-node\n"), before...))
	t.Cleanup(func() {
		restartWith(context.WithoutCancel(ctx), before)
		eventually(t, "the node to be as before", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceGPU) == 8 })
	})
	eventually(t, "the node to say so", func(ctx context.Context) bool {
		ready := conditionOf(t, g8s.ConditionAgentReady)
		return ready.Status == corev1.ConditionTrue && strings.Contains(ready.Message, "single-numa-node") && allocatable(ctx, g8s.ResourceGPU) == 8
	})
	pod := shape{parts: []part{{cards: 6}}}.pod("not-aligned")
	if err := create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	bound, err := bound(ctx, pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	cards, err := assignment(bound)
	if err != nil {
		t.Fatal(err)
	}
	seesItsCards(t, pod.Name, cards, 1)
	if err := remove(ctx, pod.Name, false); err != nil {
		t.Fatal(err)
	}
}

// kubeletSettings returns the file of kubelet's settings, by its command line.
func kubeletSettings(t *testing.T) string {
	t.Helper()
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cluster.FindProcess(realnode.KubeletName).PID()), "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	for arg := range strings.SplitSeq(string(line), "\x00") {
		if path, is := strings.CutPrefix(arg, "--config="); is {
			return path
		}
	}
	t.Fatalf("kubelet's command line is %q", line)
	return ""
}
