package amounts

import (
	resourcev1 "k8s.io/api/resource/v1"
)

// boundClaim bounds what users request of devices, and the allocated part of it.
func boundClaim(claim *resourcev1.ResourceClaim) {
	requests := claim.Spec.Devices.Requests
	for i := range requests {
		if exactly := requests[i].Exactly; exactly != nil {
			boundCapacity(exactly.Capacity)
		}
		for j := range requests[i].FirstAvailable {
			boundCapacity(requests[i].FirstAvailable[j].Capacity)
		}
	}
	if allocation := claim.Status.Allocation; allocation != nil {
		for i := range allocation.Devices.Results {
			boundList(allocation.Devices.Results[i].ConsumedCapacity)
		}
	}
}

func boundCapacity(capacity *resourcev1.CapacityRequirements) {
	if capacity != nil {
		boundList(capacity.Requests)
	}
}

// boundSlice bounds what a driver reports about the devices of a node.
func boundSlice(slice *resourcev1.ResourceSlice) {
	for i := range slice.Spec.SharedCounters {
		boundCounters(slice.Spec.SharedCounters[i].Counters)
	}
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		for j := range device.ConsumesCounters {
			boundCounters(device.ConsumesCounters[j].Counters)
		}
		for name, capacity := range device.Capacity {
			boundOne(&capacity.Value)
			boundPolicy(capacity.RequestPolicy)
			device.Capacity[name] = capacity
		}
		for _, resource := range device.NodeAllocatableResources { // what is changed is behind pointers
			boundNodeAllocatable(&resource)
		}
	}
}

// boundNodeAllocatable bounds the node resources that a device represents.
func boundNodeAllocatable(resource *resourcev1.NodeAllocatableResource) {
	if mapping := resource.Mapping; mapping != nil {
		boundOne(mapping.CapacityMultiplier)
		boundOne(mapping.DeviceMultiplier)
	}
	if overhead := resource.Overhead; overhead != nil {
		boundOne(overhead.PerPod)
		boundOne(overhead.PerContainer)
	}
}

func boundCounters(counters map[string]resourcev1.Counter) {
	for name, counter := range counters {
		boundOne(&counter.Value)
		counters[name] = counter
	}
}

func boundPolicy(policy *resourcev1.CapacityRequestPolicy) {
	if policy == nil {
		return
	}
	boundOne(policy.Default)
	for i := range policy.ValidValues {
		boundOne(&policy.ValidValues[i])
	}
	if valid := policy.ValidRange; valid != nil {
		boundOne(valid.Min)
		boundOne(valid.Max)
		boundOne(valid.Step)
	}
}
