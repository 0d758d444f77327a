package gpu

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// SliceHolding is what one pod holds of a node's MIG slices, by position. It never changes; nil is an empty holding.
type SliceHolding struct {
	at []int
	// unknown counts, by profile, the slices of the pod that cannot be identified.
	unknown map[string]int64
}

// IsKnown reports whether the slices of the pod are known.
func (h *SliceHolding) IsKnown() bool { return h == nil || len(h.unknown) == 0 }

// SlicesUsed is what all pods of a node hold of its MIG slices together. The zero value is an empty node.
type SlicesUsed struct {
	held    []bool // by position, as far as any is held
	unknown map[string]int64
}

// Add counts a pod.
func (u *SlicesUsed) Add(h *SliceHolding) {
	if h == nil {
		return
	}
	for _, at := range h.at {
		if at >= len(u.held) {
			u.held = append(u.held, make([]bool, at+1-len(u.held))...)
		}
		u.held[at] = true
	}
	for profile, count := range h.unknown {
		if u.unknown == nil {
			u.unknown = map[string]int64{}
		}
		u.unknown[profile] += count
	}
}

func (u *SlicesUsed) isHeld(at int) bool { return at < len(u.held) && u.held[at] }

// SlicesHeldBy returns the slices of a pod that is bound to the node. If the annotation g8s.host/gpu-devices names all slices that the pod requests,
// and the node has them, they are the ones. Else slices that the node's agent reports for the pod are added, as for a pod of another scheduler, or
// one whose slices were recreated. The rest are any of their profile.
//
// A pod cannot gain by its annotation: one that does not serve its request, container by container, is ignored.
func (a *Allocator) SlicesHeldBy(pod *corev1.Pod, reported func() []Slice) *SliceHolding {
	if a.slices == nil {
		return nil
	}
	demand, err := specDemand(pod)
	if err != nil || !demand.NeedsSlices() {
		return nil // kubelet does not admit a pod that cannot be counted
	}
	var named SliceAssignment
	if text, ok := pod.Annotations[names.AnnotationGPUDevices]; ok {
		if choice, err := ParseChoice(text); err == nil {
			named = choice.Slices
		}
	}
	holding := a.ResolveSlices(&demand, named)
	if holding.IsKnown() {
		return holding
	}
	for _, slice := range reported() {
		at, listed := a.slices.positions[slice.UUID]
		if slice.Pod == pod.UID && pod.UID != "" && listed && !slices.Contains(holding.at, at) {
			holding.at = append(holding.at, at)
			holding.resolveUnknown(a.slices.slices[at].Profile)
		}
	}
	return holding
}

// ResolveSlices returns what a pod holds of the node by its assignment. Slices that the node does not have are unknown, as are all of them if the
// assignment does not serve the demand.
func (a *Allocator) ResolveSlices(d *Demand, assignment SliceAssignment) *SliceHolding {
	holding := &SliceHolding{unknown: map[string]int64{}}
	for _, asked := range d.Profiles {
		if _, listed := a.slices.byProfile[asked.Profile]; listed {
			// One more than any node has already means all of them. The cap keeps every sum exact.
			holding.unknown[asked.Profile] = min(asked.Count, maxSlices+1)
		}
	}
	if assignment.fitsDemand(d) != nil {
		return holding
	}
	for _, held := range assignment {
		for i := range held {
			at, listed := a.slices.positions[held[i].UUID]
			if listed && !slices.Contains(holding.at, at) && a.slices.slices[at].Profile == held[i].Profile {
				holding.at = append(holding.at, at)
				holding.resolveUnknown(held[i].Profile)
			}
		}
	}
	slices.Sort(holding.at)
	return holding
}

// resolveUnknown removes one of a profile from the unknown ones.
func (h *SliceHolding) resolveUnknown(profile string) {
	if h.unknown[profile]--; h.unknown[profile] <= 0 {
		delete(h.unknown, profile)
	}
}

// fitsDemand checks that an assignment matches a demand: each container has the slices that it requests, and no two containers that run at once have
// the same.
func (as SliceAssignment) fitsDemand(d *Demand) error {
	type part struct{ container, profile string }
	left := make(map[part]int64, len(d.Slices))
	for i := range d.Slices {
		left[part{d.Slices[i].Container, d.Slices[i].Profile}] = d.Slices[i].Count
	}
	for container, held := range as {
		for i := range held {
			of := part{container, held[i].Profile}
			if left[of]--; left[of] < 0 {
				return fmt.Errorf("container %s has more slices of %s than it asks for", container, of.profile)
			}
		}
	}
	for of, count := range left {
		if count > 0 {
			return fmt.Errorf("container %s has %d slices of %s too few", of.container, count, of.profile)
		}
	}
	return as.checkExclusive(d)
}

// checkExclusive finds a slice that two containers have at once: a sidecar and a container that starts after it, or two main ones.
func (as SliceAssignment) checkExclusive(d *Demand) error {
	running := map[string]string{} // by UUID
	for i := range d.Slices {
		container := d.Slices[i].Container
		if i > 0 && container == d.Slices[i-1].Container {
			continue
		}
		for _, held := range as[container] {
			if other, ok := running[held.UUID]; ok {
				return fmt.Errorf("container %s has a slice together with container %s", container, other)
			}
			if d.Slices[i].Lifetime != Init {
				running[held.UUID] = container
			}
		}
	}
	return nil
}
