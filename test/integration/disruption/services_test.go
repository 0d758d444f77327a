package disruption

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// TestServicesRunAgainAtOnce takes the pods of Deployments away: Kubernetes makes the new one while the old one ends.
func TestServicesRunAgainAtOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*env, *corev1.Pod){
		"an eviction":        (*env).Evict,
		"kubectl delete pod": func(e *env, pod *corev1.Pod) { e.remove(pod, nil) },
		"kubectl drain": func(e *env, pod *corev1.Pod) {
			e.Kubectl("drain", pod.Spec.NodeName, "--delete-emptydir-data", "--ignore-daemonsets")
		},
	}
	for cause, lose := range tests {
		for _, kind := range []workload.Kind{workload.KindInference, workload.KindNotebook} {
			t.Run(cause+" of "+string(kind), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				pod := e.Start(clustertest.Job{Name: "chat", Kind: kind, GPUs: 2, Pod: map[string]string{sandbox.AnnotationStopAfter: "6s"}})[0]
				began := time.Now()
				lose(e, pod)
				fresh := e.AgainWithin(2*time.Second, "chat", pod, began)
				if ended := e.Ended(pod).Ended; ended.Before(e.History.Of(fresh.UID).Running) {
					t.Error("the old pod had ended before the new one ran: what the docs say of two at a time is not so any more")
				}
			})
		}
	}
}

// TestServicesLeaveADeadNode stops the kubelet of a service's node: Kubernetes starts it elsewhere without knowing whether
// the old pod has ended.
func TestServicesLeaveADeadNode(t *testing.T) {
	t.Parallel()
	for _, kind := range []workload.Kind{workload.KindInference, workload.KindNotebook} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pod := e.Start(clustertest.Job{Name: "chat", Kind: kind, GPUs: 2, Leaves: ptr.To(2)})[0]
			e.die(pod.Spec.NodeName)
			e.AgainWithin(2*time.Second+clustertest.Soon, "chat", pod, time.Now())
			if seen := e.History.Of(pod.UID); !seen.Ended.IsZero() || seen.Pod.DeletionTimestamp == nil {
				t.Errorf("the pod of the dead node is %s, deleted %v; want that nobody knows", seen.Pod.Status.Phase, seen.Pod.DeletionTimestamp)
			}
		})
	}
}
