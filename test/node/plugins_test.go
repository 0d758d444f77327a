package node

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/otherplugin"
)

// TestTwoPlugins has another device plugin of the resource come and go. kubelet asks it, and tells nobody: the node says so, no pod is placed there
// meanwhile, and the agent is back when the other one is gone. This is what the stand-in of pkg/agent/kubelet is held against.
func TestTwoPlugins(t *testing.T) {
	needNode(t)
	ctx := t.Context()
	for round := range *rivals {
		other, err := otherplugin.Start(ctx, bed.HostPath(realnode.KubeletDir+"/device-plugins"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.Stop)
		took := eventually(t, "the node to say that kubelet asks another plugin", func(context.Context) bool {
			ready := conditionOf(t, g8s.ConditionAgentReady)
			return ready.Status == corev1.ConditionFalse && ready.Reason == g8s.ReasonOtherPlugin && strings.Contains(ready.Message, otherplugin.Socket)
		})
		if took > bounds.Of(2*time.Second) {
			t.Errorf("the node said so after %s, want 2 s", took)
		}
		pod := shape{parts: []part{{cards: 1}}}.pod(fmt.Sprintf("between-plugins-%d", round))
		if err := create(ctx, pod); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the scheduler to leave the node alone", func(ctx context.Context) bool {
			return strings.Contains(why(pod.Name).Error(), "node(s) have a gpu-agent that gives out no GPUs")
		})
		select {
		case <-other.Allocated:
			t.Error("kubelet asked the other plugin for a pod's devices")
		default:
		}

		other.Stop()
		took = eventually(t, "the agent to serve again", func(context.Context) bool {
			return conditionOf(t, g8s.ConditionAgentReady).Status == corev1.ConditionTrue && allocatable(ctx, g8s.ResourceGPU) == 8
		})
		if took > bounds.Of(15*time.Second) {
			t.Errorf("it served again after %s, want 15 s", took)
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
}

// TestAnAgentThatStoodStill has seen nothing meanwhile, and takes no card for lost: the machine of one may have been suspended.
func TestAnAgentThatStoodStill(t *testing.T) {
	needNode(t)
	agent := cluster.FindProcess(realnode.AgentName)
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Signal(syscall.SIGCONT) })
	sleep(t.Context(), 16*time.Second)
	if err := agent.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); sleep(t.Context(), pollEvery) {
		if healthy := conditionOf(t, g8s.ConditionGPUsHealthy); healthy.Status != corev1.ConditionTrue {
			t.Fatalf("after it stood still: %s %s", healthy.Reason, healthy.Message)
		}
	}
}

// TestUpgradesOfTheAgent replaces the agent again and again while pods come and go: the next one registers before the one before has ended, so
// kubelet rejects none of them.
func TestUpgradesOfTheAgent(t *testing.T) {
	needNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &wave{prefix: "upgrade", want: 1 << 30, outages: true, extra: stopped}
	began := time.Now()
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.run(ctx)
	}()
	for range *upgrades / 2 {
		sleep(ctx, 3*time.Second)
		if err := bed.UpgradeAgent(ctx); err != nil {
			t.Error(err)
			break
		}
	}
	w.finish()
	<-over
	w.report(t, time.Since(began))
	if w.refused > 0 || w.started == 0 {
		t.Errorf("kubelet refused %d of %d pods in %d upgrades, want none", w.refused, w.made, *upgrades)
	}
	eventually(t, "the last agent to say that it serves", func(context.Context) bool {
		return conditionOf(t, g8s.ConditionAgentReady).Status == corev1.ConditionTrue
	})
}

// TestANodeWithoutAnAgentIsNoBlackHole kills the agent and submits a job before kubelet has told that it offers no cards. A pod or two are rejected,
// for good, and then none until the agent is back; the job loses no retry.
func TestANodeWithoutAnAgentIsNoBlackHole(t *testing.T) {
	needNode(t)
	ctx := t.Context()
	withController(t)
	const name = "hole"
	before := rejectedPods(ctx, t)
	if err := cluster.FindProcess(realnode.AgentName).Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if ended(cluster.FindProcess(realnode.AgentName)) {
			if err := bed.StartAgent(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		}
	})
	submit(t, name, 2)
	sleep(ctx, 8*time.Second)
	refused := rejectedPods(ctx, t) - before
	said := gpuctl(t, "why", name)
	t.Logf("%d pods were rejected; gpuctl why: %s", refused, said)
	if refused > 2 || !strings.Contains(said, "gpu-agent gives out no GPUs") {
		t.Errorf("kubelet rejected %d pods, want 2 at the most; the agent is named %v", refused, strings.Contains(said, "gpu-agent gives out no GPUs"))
	}
	if err := bed.StartAgent(ctx); err != nil {
		t.Fatal(err)
	}
	runningPod(t, g8s.LabelJob+"="+name, nil)
	jobs, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: g8s.LabelJob + "=" + name})
	if err != nil || len(jobs.Items) != 1 || jobs.Items[0].Status.Failed != 0 {
		t.Errorf("the job has paid for it: %+v, error %v", jobs.Items, err)
	}
}

// rejectedPods counts the pods that kubelet has rejected.
func rejectedPods(ctx context.Context, t *testing.T) (count int) {
	t.Helper()
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].Status.Reason == "UnexpectedAdmissionError" {
			count++
		}
	}
	return count
}
