package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// TestTheAgentRunsAsItsManifestSays runs the agent as the pod of its DaemonSet, beside the process that stands in for it
// elsewhere: the two must not serve at once. Then the process ends, and the pod takes over. What differs from the manifest
// is where the image, the cards, the scheduler and the API server are.
func TestTheAgentRunsAsItsManifestSays(t *testing.T) {
	needTime(t)
	ctx := t.Context()
	set, err := client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, realnode.AgentName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	importImage(t, realnode.AgentName)
	server, err := url.Parse(cluster.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	patchAgent(t, map[string]any{"spec": map[string]any{
		"hostNetwork": true, "schedulerName": g8s.SchedulerName, // no other scheduler runs here
		"containers": []any{map[string]any{
			"name": realnode.AgentName, "imagePullPolicy": corev1.PullNever,
			"args": append(set.Spec.Template.Spec.Containers[0].Args, "--nvml=mock", "--mock-config=/host"+bed.GPUsPath()),
			"env": []any{
				map[string]string{"name": "KUBERNETES_SERVICE_HOST", "value": server.Hostname()},
				map[string]string{"name": "KUBERNETES_SERVICE_PORT", "value": server.Port()},
			},
		}},
	}})
	labelAgent(ctx, t, `"true"`)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		labelAgent(ctx, t, "null")
		eventually(t, "the agent's pod to end", func(ctx context.Context) bool { return agentPod(ctx) == nil })
		if cluster.FindProcess(realnode.AgentName) == nil || ended(cluster.FindProcess(realnode.AgentName)) {
			if err := bed.StartAgent(ctx); err != nil {
				t.Error(err)
			}
		}
		eventually(t, "the cards", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceGPU) == 8 })
	})
	defer func() {
		if pod := agentPod(ctx); t.Failed() && pod != nil {
			t.Log(whyNot(pod))
		}
	}()
	eventually(t, "the agent's pod to run", func(ctx context.Context) bool {
		pod := agentPod(ctx)
		return pod != nil && pod.Status.Phase == corev1.PodRunning
	})
	w := &wave{prefix: "manifest", want: 10}
	w.run(ctx) // by the process still
	if err := cluster.FindProcess(realnode.AgentName).Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	sleep(ctx, 2*time.Second) // kubelet notices, and counts no card, before the other has registered
	eventually(t, "the agent's pod to take over", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceGPU) == 8 })
	w.more(10)
	w.run(ctx) // by the pod
	makeFolderAnew(t)
	w.more(10)
	w.run(ctx) // by the pod, which sees the new folder
	w.report(t, time.Since(began))
	if pod := agentPod(ctx); pod == nil || pod.Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the agent's pod is %+v", pod)
	}
}

// makeFolderAnew has kubelet start without its folder of device plugins, as after somebody removed it with all that kubelet remembers.
func makeFolderAnew(t *testing.T) {
	t.Helper()
	if err := cluster.FindProcess(realnode.KubeletName).Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(bed.HostPath(realnode.KubeletDir + "/device-plugins")); err != nil {
		t.Fatal(err)
	}
	if err := bed.StartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	sleep(t.Context(), 2*time.Second) // kubelet writes that it counts none, before the agent has registered
	eventually(t, "the agent's pod to register in the new folder", func(ctx context.Context) bool { return allocatable(ctx, g8s.ResourceGPU) == 8 })
}

// patchAgent changes the template of the agent's pods.
func patchAgent(t *testing.T, template map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.AppsV1().DaemonSets(metav1.NamespaceSystem).Patch(t.Context(), realnode.AgentName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// labelAgent says whether the DaemonSet is to run on the node.
func labelAgent(ctx context.Context, t *testing.T, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, g8s.LabelAgent, value)
	if _, err := client.CoreV1().Nodes().Patch(ctx, bed.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

func agentPod(ctx context.Context) *corev1.Pod {
	list, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + realnode.AgentName})
	if err != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}
