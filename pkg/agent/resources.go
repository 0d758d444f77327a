package agent

import (
	"maps"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
)

// podResources serves kubelet's PodResources, with GPUs in place of slots.
func (a *agent) podResources(o *Options) *kubelet.PodResources {
	return &kubelet.PodResources{
		Kubelet: filepath.Join(o.KubeletDir, "pod-resources", "kubelet.sock"), Socket: o.PodResourcesSocket,
		Held: a.starter.heldGPUs, All: a.gpus.resourceUUIDs, Log: o.Log,
	}
}

// heldGPUs returns the GPUs that are currently held, from one read of kubelet's checkpoint and the records.
func (s *Starter) heldGPUs() (kubelet.GPULookup, error) {
	claims, err := s.ReadClaims()
	if err != nil {
		return nil, err
	}
	records, err := s.Folder.ReadRecords()
	if err != nil {
		return nil, err
	}
	return func(pod types.NamespacedName, resource string, slots []string) []string {
		return findHeldGPUs(claims, records, pod, resource, slots)
	}, nil
}

// findHeldGPUs returns the GPUs of a pod's containers with some slots, including init containers, which have the slots at another time. Slots alone do not
// identify their holder, as kubelet may give them to two pods.
func findHeldGPUs(claims []checkpoint.Claim, records []binding.Record, pod types.NamespacedName, resource string, slots []string) []string {
	slots = slices.Sorted(slices.Values(slots))
	var uuids []string
	for i := range records {
		record := &records[i]
		if record.Namespace == pod.Namespace && record.PodName == pod.Name && slices.ContainsFunc(claims, func(c checkpoint.Claim) bool {
			return c.Name == record.Name && c.Pod == record.Pod && c.Resource == resource && slices.Equal(c.Slots, slots)
		}) {
			uuids = append(uuids, record.UUIDs()...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(uuids)))
}

// resourceUUIDs returns the GPUs of a resource, by UUID.
func (c *GPUMonitor) resourceUUIDs(resource string) (uuids []string, known bool) {
	view, _ := c.CurrentView()
	offer, ok := view.offersByResource()[resource]
	if !ok {
		return nil, false
	}
	return slices.Sorted(maps.Keys(offer.units)), true
}
