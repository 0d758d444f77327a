package controller

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	cardfault "g8s.host/gpu-scheduler/pkg/gpu/fault"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// movedAfter is how long a pod runs on with a card that only a reset mends: the default of --broken-gpu-after.
const movedAfter = 10 * time.Second

// breakCard has the node of a pod that holds all of its cards say, as its agent would, that the first of them is broken.
func (e *env) breakCard(pod *corev1.Pod, word string) {
	e.Helper()
	var inventory gpu.Inventory
	for _, device := range gpu.DevicesOf(pod) {
		inventory.GPUs = append(inventory.GPUs, gpu.GPU{UUID: device.UUID, Index: device.Index, Health: gpu.Healthy})
	}
	if len(inventory.GPUs) != 8 {
		e.Fatalf("pod %s holds %d cards, want all 8", pod.Name, len(inventory.GPUs))
	}
	inventory.GPUs[0].Health, inventory.GPUs[0].Since = word, time.Now()
	text, err := inventory.Encode()
	if err != nil {
		e.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{names.AnnotationInventory: text}}})
	if err != nil {
		e.Fatal(err)
	}
	_, err = cluster.Client.CoreV1().Nodes().Patch(e.Context(), pod.Spec.NodeName, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// TestAJobLeavesABrokenCard, and a gang does as a whole, without a retry, and neither before it has had its time.
func TestAJobLeavesABrokenCard(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]clustertest.Job{
		"a training job":  {Name: "sft", GPUs: 8},
		"a gang of three": {Name: "pretrain", GPUs: 8, Nodes: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pods := e.Start(j)
			struck := pods[len(pods)-1]
			broken := time.Now()
			e.breakCard(struck, cardfault.XIDWord(79))
			if early := e.Ended(struck).Ended.Sub(broken); early < movedAfter-time.Second {
				t.Errorf("it left %s after its card broke, want that it has %s", early, movedAfter)
			}
			for _, pod := range pods {
				fresh := e.AgainWithin(movedAfter+clustertest.Soon, j.Name, pod, broken)
				if fresh.Spec.NodeName == struck.Spec.NodeName {
					t.Errorf("%s is on the node with the broken card", fresh.Name)
				}
			}
			e.told(e.Namespace, struck.Name, names.EventMovedFromBrokenGPU, "Xid79")
			if len(pods) > 1 {
				e.told(e.Namespace, pods[0].Name, names.EventMovedFromBrokenGPU, "member "+struck.Name+" of its gang")
			}
			if status := e.Status(j.Name); status.Failed != 0 || ptr.Deref(status.FailedIndexes, "") != "" {
				t.Errorf("the job has paid for it: %+v", status)
			}
		})
	}
}

// TestAPodStaysOnABrokenCard that a person has to decide about, or whose card may be well again.
func TestAPodStaysOnABrokenCard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		word, says string
		pod        map[string]string
	}{
		"a person decides": {word: cardfault.XIDWord(79), pod: map[string]string{names.AnnotationNoMigration: names.True}, says: "without a person"},
		"heat may pass":    {word: cardfault.TooHot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8, Pod: tc.pod})[0]
			e.breakCard(pod, tc.word)
			if tc.says != "" {
				e.told(e.Namespace, pod.Name, "NotMovedFromBrokenGPU", tc.says)
			}
			e.Stays("the pod runs", movedAfter+5*time.Second, func() bool { return e.History.Of(pod.UID).Ended.IsZero() })
		})
	}
}
