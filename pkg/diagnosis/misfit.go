package diagnosis

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// ExplainMisfit explains, before a job is created, why no node could ever hold such a pod, or why all nodes together could not hold the members of its gang.
// It is empty if they could. It checks only pools, types, numbers and memory of GPUs. [Diagnose] covers the rest once the job exists.
func ExplainMisfit(asked *workload.Resources, offers []inventory.Offer) phrase.Text {
	var pools, types []string
	var all []inventory.Offer // of the pool, and of a requested type
	shares := false           // as the pool does, so that a share is one
	for _, offer := range offers {
		pools = append(pools, offer.Pool)
		if offer.Pool != asked.Pool {
			continue
		}
		types = append(types, offer.GPUType)
		shares = shares || offer.MaxShared > 0
		if len(asked.GPUTypes) == 0 || slices.Contains(asked.GPUTypes, offer.GPUType) {
			all = append(all, offer)
		}
	}
	switch {
	case !slices.Contains(pools, asked.Pool):
		return phrase.Textf("no node is in pool %q%s", asked.Pool, spelling.DidYouMean(asked.Pool, pools))
	case !asked.AsksGPUs():
		return explainDomainTooSmall(asked, all)
	case len(all) == 0:
		return explainNoSuchType(asked, slices.DeleteFunc(types, func(t string) bool { return t == "" }))
	case len(asked.MIG) > 0:
		return tooManySlices(asked, all)
	case shares && asked.GPUShare != nil:
		return explainShareTooLarge(asked, all)
	}
	if why := tooManyGPUs(asked, all, shares); len(why) > 0 {
		return why
	}
	return explainDomainTooSmall(asked, all)
}

// explainShareTooLarge explains a job that shares GPUs.
func explainShareTooLarge(asked *workload.Resources, offers []inventory.Offer) phrase.Text {
	var largest, shareable resource.Quantity
	var most int64
	for _, offer := range offers {
		if offer.GPUMemory.Cmp(largest) > 0 {
			largest = offer.GPUMemory
		}
		if offer.Shareable.Cmp(shareable) > 0 {
			shareable = offer.Shareable
		}
		if offer.Shareable.Cmp(*asked.GPUShare) >= 0 {
			most = max(most, offer.MaxShared)
		}
	}
	switch {
	case largest.IsZero():
		return nil // the scheduler may have more data on the GPUs
	case largest.Cmp(*asked.GPUShare) < 0:
		return phrase.Textf("a pod asks for %s of a GPU, and the largest GPU of pool %s has %s", asked.GPUShare, asked.Pool, &largest)
	case shareable.Cmp(*asked.GPUShare) < 0:
		return phrase.Textf("a pod asks for %s of a GPU, and of the largest GPU of pool %s shares can hold %s: the driver keeps the rest of its %s",
			asked.GPUShare, asked.Pool, &shareable, &largest)
	case most < asked.GPU:
		return phrase.Textf("a pod asks for shares of %s, and the largest such node of pool %s has %d", gpuWord(asked.GPU), asked.Pool, most)
	}
	return nil
}

// tooManySlices explains a job with MIG slices.
func tooManySlices(asked *workload.Resources, offers []inventory.Offer) phrase.Text {
	var known []string
	for _, offer := range offers {
		for _, has := range offer.MIG {
			known = append(known, has.Profile)
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, slice := range asked.MIG {
		var most int64
		for _, offer := range offers {
			for _, has := range offer.MIG {
				if has.Profile == slice.Profile {
					most = max(most, has.Allocatable)
				}
			}
		}
		switch {
		case most == 0 && len(known) == 0:
			return phrase.Textf("no node of pool %s has MIG slices", asked.Pool)
		case most == 0:
			return phrase.Textf("no node of pool %s has MIG slices %s%s; it has %s", asked.Pool, slice.Profile,
				spelling.DidYouMean(slice.Profile, known), joinList(known))
		case most < slice.Count:
			return phrase.Textf("a pod asks for %d MIG slices %s, and the node of pool %s that has most has %d", slice.Count, slice.Profile, asked.Pool, most)
		}
	}
	return nil
}

// tooManyGPUs explains a job with whole GPUs.
func tooManyGPUs(asked *workload.Resources, offers []inventory.Offer, shares bool) phrase.Text {
	var most, members int64
	for _, offer := range offers {
		most = max(most, offer.MaxGPUs)
		members += countMembersOnOffer(offer, asked.GPU)
	}
	switch {
	case most == 0 && shares:
		return phrase.Textf("pool %s shares its GPUs by memory, and the job asks for whole ones: say in resources.gpu-share how much of each it needs", asked.Pool)
	case most < asked.GPU:
		return phrase.Textf("a pod asks for %s, and the largest such node of pool %s has %d", gpuWord(asked.GPU), asked.Pool, most)
	case asked.Nodes > 1 && members < int64(asked.Nodes):
		return phrase.Textf("its %d pods start together, and the nodes of pool %s have room for %d of them, even when they are empty",
			asked.Nodes, asked.Pool, members)
	}
	return nil
}

// countMembersOnOffer is how many pods with that number of GPUs the empty nodes of an offer hold.
func countMembersOnOffer(offer inventory.Offer, gpus int64) int64 {
	var out int64
	for _, size := range offer.Sizes {
		out += size / max(gpus, 1)
	}
	return out
}

// explainNoSuchType explains that the pool has none of the requested types.
func explainNoSuchType(asked *workload.Resources, known []string) phrase.Text {
	has := phrase.Textf("none")
	if len(known) > 0 {
		has = phrase.Quote(joinList(known))
	}
	types := make([]phrase.Text, len(asked.GPUTypes))
	for i, model := range asked.GPUTypes {
		types[i] = phrase.Quote(model)
	}
	return phrase.Textf("no node of pool %s has GPUs of type %s%s; it has %s",
		asked.Pool, phrase.Join(types, phrase.Textf(" or ")), didYouMeanType(asked.GPUTypes[0], known), has)
}

// didYouMeanType is the end of a message about an unknown type.
func didYouMeanType(asked string, known []string) phrase.Text {
	if near := nearestType(asked, known); near != "" {
		return phrase.Textf(" (did you mean %q?)", near)
	}
	return nil
}
