package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// TestTheAuditSeesARecordThatIsGone: nothing differs while all is well, by kubelet's own word, and what does is told.
func TestTheAuditSeesARecordThatIsGone(t *testing.T) {
	needTime(t)
	const name = "audited"
	pod := shape{parts: []part{{cards: 2}}}.pod(name)
	pod.Spec.SchedulerName = "by-hand"
	started(t, pod, choice(4, 5))
	eventually(t, "the agent to tell which devices the pod has", func(context.Context) bool {
		var has []string
		for _, metric := range measured(t, "gpu_agent_pod_device_info") {
			if labelOf(metric, "pod") == name {
				has = append(has, labelOf(metric, "UUID"))
			}
		}
		slices.Sort(has)
		return slices.Equal(has, []string{uuid(4), uuid(5)})
	})
	if count := differences(t); count != 0 {
		t.Errorf("%v differences before anything was done", count)
	}

	records, err := filepath.Glob(bed.Path(filepath.Join(strings.TrimPrefix(realnode.CDIDir, "/var"), "g8s.host-gpu-*.json")))
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, path := range records {
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), uuid(4)) {
			err = os.Remove(path)
			removed++
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if removed != 1 {
		t.Fatalf("%d of the node's %d records are of the pod, want one", removed, len(records))
	}
	eventually(t, "an event on the pod", func(ctx context.Context) bool {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=GPURecordDiffers,involvedObject.name=" + name})
		return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "no record says which") })
	})
	if count := differences(t); count != 1 {
		t.Errorf("%v differences, want one", count)
	}
}

// differences is what kubelet and the agent's records do not agree on.
func differences(t *testing.T) (sum float64) {
	t.Helper()
	for _, metric := range measured(t, "gpu_agent_record_differences") {
		sum += metric.GetGauge().GetValue()
	}
	return sum
}
