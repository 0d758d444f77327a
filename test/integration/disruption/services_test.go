package disruption

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestServicesRunAgainAtOnce takes the pods of Deployments away: Kubernetes makes the new one while the old one ends.
func TestServicesRunAgainAtOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*env, *corev1.Pod){
		"an eviction":        (*env).evict,
		"kubectl delete pod": func(e *env, pod *corev1.Pod) { e.remove(pod, nil) },
		"kubectl drain": func(e *env, pod *corev1.Pod) {
			e.kubectl("drain", pod.Spec.NodeName, "--delete-emptydir-data", "--ignore-daemonsets")
		},
	}
	for cause, lose := range tests {
		for _, kind := range []workload.Kind{workload.KindInference, workload.KindNotebook} {
			t.Run(cause+" of "+string(kind), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				pod := e.start(job{name: "chat", kind: kind, gpus: 2, pod: map[string]string{sandbox.AnnotationStopAfter: "6s"}})
				began := time.Now()
				lose(e, pod)
				fresh := e.againWithin("chat", pod, began, 2*time.Second)
				if _, ended := e.ended(pod); ended.Before(e.history.of(fresh.UID).running) {
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
			pod := e.start(job{name: "chat", kind: kind, gpus: 2, leaves: ptr.To(2)})
			e.die(pod.Spec.NodeName)
			e.againWithin("chat", pod, time.Now(), 2*time.Second+soon)
			if seen := e.history.of(pod.UID); !seen.ended.IsZero() || seen.pod.DeletionTimestamp == nil {
				t.Errorf("the pod of the dead node is %s, deleted %v; want that nobody knows", seen.pod.Status.Phase, seen.pod.DeletionTimestamp)
			}
		})
	}
}
