package gpu

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// SliceDemand is the MIG slices of one profile that one container asks for.
type SliceDemand struct {
	Container string
	Lifetime  Lifetime
	Profile   string
	Count     int64
}

// NeedsSlices reports whether the pod asks for MIG slices.
func (d *Demand) NeedsSlices() bool { return len(d.Slices) > 0 }

// containerSlices returns the MIG slices that a container asks for, by profile. Like [Request.MIG] it reads requests alone, which the API
// server fills in from limits.
func containerSlices(container *corev1.Container, lifetime Lifetime) []SliceDemand {
	var demands []SliceDemand
	for name, quantity := range container.Resources.Requests {
		if profile, ok := strings.CutPrefix(string(name), names.ResourceMIGPrefix); ok && quantity.Value() > 0 {
			demands = append(demands, SliceDemand{Container: container.Name, Lifetime: lifetime, Profile: profile, Count: quantity.Value()})
		}
	}
	slices.SortFunc(demands, func(a, b SliceDemand) int { return strings.Compare(a.Profile, b.Profile) })
	return demands
}

// sliceDemands lists the containers' demands for MIG slices, in the order in which they start. Slices of a pod's overhead belong to no container, so
// none are chosen for it.
func sliceDemands(pod *corev1.Pod) []SliceDemand {
	var demands []SliceDemand
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		demands = append(demands, containerSlices(container, initLifetime(container))...)
	}
	for i := range pod.Spec.Containers {
		demands = append(demands, containerSlices(&pod.Spec.Containers[i], Main)...)
	}
	return demands
}

// ProfileDemand is the most MIG slices of one profile that the containers of a pod hold at once.
type ProfileDemand struct {
	Profile string
	Count   int64
}

// profilePeaks sums up demands, which are in the order in which containers start. Sums saturate.
func profilePeaks(demands []SliceDemand) []ProfileDemand {
	life, sidecars, peak := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for i := range demands {
		profile, count := demands[i].Profile, demands[i].Count
		during, _ := addSaturating(sidecars[profile], count)
		switch demands[i].Lifetime {
		case Init:
			peak[profile] = max(peak[profile], during)
			continue
		case Sidecar:
			sidecars[profile] = during
		}
		life[profile], _ = addSaturating(life[profile], count)
		peak[profile] = max(peak[profile], life[profile])
	}
	var out []ProfileDemand
	for _, profile := range slices.Sorted(maps.Keys(peak)) {
		out = append(out, ProfileDemand{Profile: profile, Count: peak[profile]})
	}
	return out
}

// countContainers counts the containers of some demands for slices.
func countContainers(demands []SliceDemand) int {
	count := 0
	for i := range demands {
		if i == 0 || demands[i].Container != demands[i-1].Container {
			count++
		}
	}
	return count
}
