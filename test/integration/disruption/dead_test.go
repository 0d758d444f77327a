package disruption

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// die stops the kubelet of a node, and waits until Kubernetes has marked it. It is stopped twice: what kwok had begun to
// write of a pod when the first came may be written after it, and call the pod ready again.
func (e *env) die(node string) {
	e.Helper()
	stop := func() {
		if err := sandbox.StopKubelet(e.Context(), cluster.Client, node, true); err != nil {
			e.Fatal(err)
		}
	}
	stop()
	defer stop()
	e.Eventually(node+" to be marked as unreachable", func(ctx context.Context) (bool, error) {
		read, err := cluster.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return err == nil && tainted(read, corev1.TaintNodeUnreachable), err
	})
}

// TestAJobOfADeadNodeWaitsForCertainty stops the kubelet of a job's node. Kubernetes wants to know that the pod has ended
// before it starts another one, for two must not write to one folder: the job waits until somebody says so, in one of the
// ways that docs/disruptions.md names.
func TestAJobOfADeadNodeWaitsForCertainty(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// confirm tells Kubernetes that the pod has ended.
		confirm func(*env, *corev1.Pod)
		// most is how long it takes from then on until the job runs again.
		most time.Duration
		// by is the reason of the condition DisruptionTarget.
		by string
	}{
		"the node comes back": {
			confirm: func(e *env, pod *corev1.Pod) {
				if err := sandbox.StartKubelet(e.Context(), cluster.Client, pod.Spec.NodeName); err != nil {
					e.Fatal(err)
				}
			},
			most: clustertest.Soon, by: "DeletionByTaintManager",
		},
		"an administrator says that the node is out of service": {
			confirm: func(e *env, pod *corev1.Pod) {
				e.Kubectl("taint", "node", pod.Spec.NodeName, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
			},
			most: 20*time.Second + clustertest.Soon, by: "DeletionByTaintManager",
		},
		"an administrator deletes the node": {
			confirm: func(e *env, pod *corev1.Pod) { e.Kubectl("delete", "node", pod.Spec.NodeName) },
			most:    80*time.Second + clustertest.Soon, by: "DeletionByPodGC",
		},
		"an administrator says that the pod has failed": {
			confirm: func(e *env, pod *corev1.Pod) {
				e.Kubectl("patch", "pod", "-n", e.Namespace, pod.Name, "--subresource=status", "-p", `{"status":{"phase":"Failed"}}`)
			},
			most: clustertest.Soon, by: "DeletionByTaintManager",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pod := e.Start(clustertest.Job{Name: "sft", GPUs: 4, Leaves: ptr.To(1)})[0]
			e.die(pod.Spec.NodeName)
			e.Eventually("Kubernetes to delete the pod", func(context.Context) (bool, error) {
				return e.History.Of(pod.UID).Pod.DeletionTimestamp != nil, nil
			})
			e.shows("sft", inventory.StatusPending, string(reason.NodeLost))
			e.Stays("the job waits", 3*time.Second, func() bool {
				return len(e.History.OfJob("sft")) == 1 && e.History.Of(pod.UID).Ended.IsZero()
			})
			tc.confirm(e, pod)
			e.AgainWithin(tc.most, "sft", pod, time.Now())
			lost := e.Ended(pod).Pod
			e.disrupted(lost, tc.by)
			if status := e.Status("sft"); status.Failed != 0 {
				t.Errorf("the job has failed %d times", status.Failed)
			}
		})
	}
}

// TestForceDoesNotConfirm deletes the pod of a dead node by force: the Job holds it, and goes on waiting.
func TestForceDoesNotConfirm(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 4, Leaves: ptr.To(1)})[0]
	e.die(pod.Spec.NodeName)
	e.Kubectl("delete", "pod", "-n", e.Namespace, pod.Name, "--force", "--wait=false")
	e.Stays("the job waits", 15*time.Second, func() bool { return len(e.History.OfJob("sft")) == 1 })
}

// TestAShortAbsenceIsNone has a kubelet be away for less long than a job stays: nothing happens to it.
func TestAShortAbsenceIsNone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 4, Leaves: ptr.To(600)})[0]
	e.die(pod.Spec.NodeName)
	e.shows("sft", inventory.StatusFailing, string(reason.NodeLost))
	if err := sandbox.StartKubelet(t.Context(), cluster.Client, pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	e.shows("sft", inventory.StatusRunning, "")
	e.Stays("the pod runs", 8*time.Second, func() bool {
		seen := e.History.Of(pod.UID)
		return seen.Pod.DeletionTimestamp == nil && seen.Ended.IsZero()
	})
}

// TestAJobLeavesADeadNodeAfterItsTime looks at Kubernetes' own default, which is five minutes.
func TestAJobLeavesADeadNodeAfterItsTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 1})[0]
	stays := map[string]int64{}
	for _, toleration := range pod.Spec.Tolerations {
		if toleration.Effect == corev1.TaintEffectNoExecute {
			stays[toleration.Key] = ptr.Deref(toleration.TolerationSeconds, -1)
		}
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if stays[key] != 300 {
			t.Errorf("the job stays %d s on a node with the taint %s, want 300", stays[key], key)
		}
	}
}
