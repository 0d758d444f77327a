package node

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// TestAProgramReadsThatItIsToLeave in the file of docs/preemption.md, which kubelet keeps in step with the pod, and that it may stay.
func TestAProgramReadsThatItIsToLeave(t *testing.T) {
	needNode(t)
	submit(t, "told", 1, "  checkpoint-grace: 5m\n")
	var pod *corev1.Pod
	eventually(t, "the job to run", func(ctx context.Context) bool {
		names := podsOf(ctx, "told")
		if len(names) != 1 || !isRunning(ctx, names[0]) {
			return false
		}
		var err error
		pod, err = client.CoreV1().Pods(namespace).Get(ctx, names[0], metav1.GetOptions{})
		return err == nil
	})
	file := bed.HostPath(realnode.KubeletDir + "/pods/" + string(pod.UID) + "/volumes/kubernetes.io~downward-api/preemption-notice/preemption-notice")
	told := notice.Notice{At: time.Now().UTC(), Until: time.Now().UTC().Add(time.Minute), For: notice.Preemptor{Namespace: namespace, Pod: "urgent"}}.AnnotationText()
	for _, says := range []string{"", told, ""} {
		var value any
		if says != "" {
			value = says
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{g8s.AnnotationPreemptionNotice: value}}})
		if err != nil {
			t.Fatal(err)
		}
		// As the scheduler writes it: by the status.
		if _, err := client.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		took := eventually(t, "the file to say so", func(context.Context) bool {
			text, err := os.ReadFile(file)
			return err == nil && string(text) == says
		})
		t.Logf("the file says %q after %s", says, took)
	}
}
