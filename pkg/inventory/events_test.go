package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestNoAgentTellsOfPodsOfOtherNodes: whoever took a node over may write what they like of any pod, as its agent.
func TestNoAgentTellsOfPodsOfOtherNodes(t *testing.T) {
	labels := map[string]string{names.LabelJob: "train", names.LabelJobType: "training", names.LabelManagedBy: names.ManagedByGpuctl}
	pod := func(name, node string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: types.UID(name), Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}
	}
	event := func(about, component, host, reason string) corev1.Event {
		return corev1.Event{Reason: reason, Source: corev1.EventSource{Component: component, Host: host},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team", Name: about, UID: types.UID(about)}}
	}
	details := BuildDetails(&snapshot.Snapshot{
		Pods: []corev1.Pod{pod("placed", "n1"), pod("waiting", "")},
		Events: []corev1.Event{
			event("placed", "gpu-agent", "n1", "Own"), event("placed", "gpu-agent", "n2", "Foreign"), event("waiting", "gpu-agent", "n2", "ForeignToo"),
			event("placed", "kubelet", "n2", "Kubelet"), event("placed", "default-scheduler", "", "Scheduler"),
		},
	})
	if len(details) != 1 {
		t.Fatalf("got %d jobs", len(details))
	}
	var got []string
	for _, e := range details[0].Events {
		got = append(got, e.Reason)
	}
	if len(got) != 3 || got[0] != "Own" || got[1] != "Kubelet" || got[2] != "Scheduler" {
		t.Errorf("got the events %v, want those of the agent of the pod's node, and of others than agents", got)
	}
}
