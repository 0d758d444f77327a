package policy

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAWaitingPodGetsNoCardsByAnnotation: what gives a container cards is refused of a pod that is there as of a new one.
func TestAWaitingPodGetsNoCardsByAnnotation(t *testing.T) {
	namespace := team(t, nil)
	bind(t, namespace, "edit")
	pods := as(user("ana")).CoreV1().Pods(namespace)
	pod := plain()
	of("nowhere")(pod)
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"nvidia.cdi.k8s.io/container.main": "cdi.k8s.io/container.main would give", "cdi.k8s.io/gpu": "would give a container",
		"devices.nri.io/container.main": "would give a container", "mounts.nri.io/container.main": "would give a container",
		"devices.noderesource.dev/container.main": "would give a container", "io.kubernetes.cri-o.Devices": "would give a container",
		"example.com/note": "",
	} {
		t.Run(key, func(t *testing.T) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"nvidia.com/gpu=all"}}}`, key)
			_, err := pods.Patch(t.Context(), made.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			checkRefusal(t, err, want)
		})
	}
	t.Run("one that was there before does not keep it from being changed", func(t *testing.T) {
		set := []byte(`{"metadata":{"annotations":{"nvidia.cdi.k8s.io/old":"a"}}}`)
		if _, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), made.Name, types.MergePatchType, set, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := pods.Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		checkRefusal(t, err, "")
		_, err = pods.Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.cdi.k8s.io/old":"b"}}}`), metav1.PatchOptions{})
		checkRefusal(t, err, "cdi.k8s.io/old would give")
	})
}
