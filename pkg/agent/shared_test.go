package agent

import (
	"path/filepath"
	"testing"

	kubelet "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestSharesAreOfferedBeforeTheAPIServerAnswers, where the agent before offered some: containers that share a card could not
// start again else.
func TestSharesAreOfferedBeforeTheAPIServerAnswers(t *testing.T) {
	b := newBed(t, "count: 2")
	if b.WasShared() {
		t.Error("a node without kubelet's checkpoint has shared before")
	}
	for resource, want := range map[string]bool{names.ResourceGPU: false, names.ResourceSharedGPU: true} {
		data, err := kubelet.New(nil, map[string][]string{resource: {}}).MarshalCheckpoint()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(b.DevicePlugins, "kubelet_internal_checkpoint"), string(data))
		if got := b.WasShared(); got != want {
			t.Errorf("after %s was offered: %v, want %v", resource, got, want)
		}
	}
}
