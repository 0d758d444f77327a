package usage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/golden"
)

// node returns a node whose agent reported four cards, the last of them broken.
func node(t *testing.T, name, pool string) corev1.Node {
	t.Helper()
	inventory := gpu.Inventory{}
	for i := range 4 {
		card := gpu.GPU{UUID: fmt.Sprintf("GPU-%s-%d", name, i), Index: i, MemoryMiB: 81920, Health: gpu.Healthy}
		if i == 3 {
			card.Health = "Xid79"
		}
		inventory.GPUs = append(inventory.GPUs, card)
	}
	text, err := inventory.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{names.LabelPool: pool, names.LabelGPUType: "A100-80G"},
			Annotations: map[string]string{names.AnnotationInventory: text},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// pod returns a running pod of a job, which holds the cards of the indices; without them it is not known which.
func pod(t *testing.T, job, onNode string, count string, resourceName corev1.ResourceName, cards ...int) corev1.Pod {
	t.Helper()
	amount := corev1.ResourceList{resourceName: resource.MustParse(count)}
	out := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job + "-x", Namespace: "team", Annotations: map[string]string{},
			Labels: map[string]string{names.LabelJob: job, names.LabelJobType: "training"},
		},
		Spec: corev1.PodSpec{NodeName: onNode, Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	assignment := gpu.Assignment{}
	for _, card := range cards {
		device := gpu.Device{UUID: fmt.Sprintf("GPU-%s-%d", onNode, card), Index: card}
		if resourceName == names.ResourceSharedGPU {
			out.Annotations[names.AnnotationGPUShare] = "2Gi"
			device.MemoryMiB = 2048
		}
		assignment["main"] = append(assignment["main"], device)
	}
	if len(cards) > 0 {
		text, err := assignment.Encode()
		if err != nil {
			t.Fatal(err)
		}
		out.Annotations[names.AnnotationGPUDevices] = text
	}
	return out
}

// measured returns samples as a Prometheus gives them that knows cards 0 and 1 of node a.
func measured(t *testing.T) gpumetrics.Samples {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := map[string]string{gpumetrics.MetricUtilization: "80", gpumetrics.MetricMemoryUsed: "1024"}[r.FormValue("query")]
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[
			{"metric":{"UUID":"GPU-a-0","gpu":"0","Hostname":"a"},"value":[0,%q]},
			{"metric":{"gpu":"1","Hostname":"a"},"value":[0,"0"]}]}}`, value)
	}))
	t.Cleanup(server.Close)
	client, err := gpumetrics.NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := client.ReadSamples(context.Background(), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func TestBuild(t *testing.T) {
	cordoned := node(t, "b", "train")
	cordoned.Spec.Unschedulable = true
	ended := pod(t, "over", "a", "1", names.ResourceGPU, 2)
	ended.Status.Phase = corev1.PodSucceeded
	got := Build(&snapshot.Snapshot{
		Nodes: []corev1.Node{cordoned, node(t, "a", "train"), node(t, "c", "infer"), {ObjectMeta: metav1.ObjectMeta{Name: "cpu"}}},
		Pods: []corev1.Pod{
			pod(t, "sft", "a", "2", names.ResourceGPU, 0, 1), ended,
			pod(t, "foreign", "b", "1", names.ResourceGPU),
			pod(t, "chat", "c", "1", names.ResourceSharedGPU, 0), pod(t, "chat", "c", "1", names.ResourceSharedGPU, 0),
		},
	}, measured(t))
	golden.CompareJSON(t, filepath.Join("testdata", "usage.json"), got)
}

func TestNothingMeasuredIsNotZero(t *testing.T) {
	got := Build(&snapshot.Snapshot{Nodes: []corev1.Node{node(t, "a", "train")}}, gpumetrics.Samples{})
	if got.Total.Utilization != nil || got.GPUs[0].Utilization != nil || got.Nodes[0].MemoryUsedMiB != nil {
		t.Errorf("utilization was made up: %+v", got.Total)
	}
}
