package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Misfit says, before a job is there, why no node could ever hold a pod that asks so much, or the nodes together all
// the members of a gang; "" if they could. Only what pools, types and numbers of GPUs tell is looked at: [Diagnose]
// knows the rest once the job is there.
func Misfit(asked *workload.Resources, offers []inventory.Offer) string {
	var pools, types []string
	var most, members int64
	for _, offer := range offers {
		pools = append(pools, offer.Pool)
		if offer.Pool != asked.Pool {
			continue
		}
		types = append(types, offer.GPUType)
		if len(asked.GPUTypes) == 0 || slices.Contains(asked.GPUTypes, offer.GPUType) {
			most = max(most, offer.MostGPUs, offer.MostShared)
			members += membersOn(offer, asked.GPU)
		}
	}
	switch {
	case !slices.Contains(pools, asked.Pool):
		return fmt.Sprintf("no node is in pool %q%s", asked.Pool, meant(nearest(asked.Pool, pools)))
	case asked.GPU == 0:
		return ""
	case len(asked.GPUTypes) > 0 && !slices.ContainsFunc(asked.GPUTypes, func(t string) bool { return slices.Contains(types, t) }):
		return noSuchTypeIn(asked, slices.DeleteFunc(types, func(t string) bool { return t == "" }))
	case most < asked.GPU:
		return fmt.Sprintf("a pod asks for %s, and the largest such node of pool %s has %d", gpuWord(asked.GPU), asked.Pool, most)
	case asked.Nodes > 1 && members < int64(asked.Nodes):
		return fmt.Sprintf("its %d pods start together, and the nodes of pool %s have room for %d of them, even when they are empty",
			asked.Nodes, asked.Pool, members)
	}
	return ""
}

// membersOn is how many pods of so many GPUs the nodes of an offer hold when they are empty.
func membersOn(offer inventory.Offer, gpus int64) int64 {
	var out int64
	for _, size := range offer.Sizes {
		out += size / max(gpus, 1)
	}
	return out
}

// noSuchTypeIn says that none of the types of a pool is one of those asked for.
func noSuchTypeIn(asked *workload.Resources, known []string) string {
	has := "none"
	if len(known) > 0 {
		has = listOf(known)
	}
	return fmt.Sprintf("no node of pool %s has GPUs of type %s%s; it has %s",
		asked.Pool, strings.Join(asked.GPUTypes, " or "), meant(nearestType(asked.GPUTypes[0], known)), has)
}

// meant is the end of a sentence about a word that nothing is called by; "" if nothing is near to it.
func meant(near string) string {
	if near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}
