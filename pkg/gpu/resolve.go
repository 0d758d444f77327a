package gpu

import (
	"errors"
	"fmt"
)

// Resolve returns what a pod holds of the node: its assignment, in positions of the inventory. The demand defines which containers hold their GPUs at
// the same time. An assignment that does not serve the demand, container by container, is an error: it is forged or belongs to another pod, and the
// pod counts with [UnknownHolding]. An assignment that gives a GPU to two containers at once is also an error.
//
// GPUs that the inventory does not have count as unknown: the node may have changed from a derived inventory to a reported one, or back, and then the
// pod holds GPUs under other names.
//
// The memory of a share is the assigned one. It is not compared with the pod's annotation, which can be edited later: the pod holds what was
// assigned.
func (a *Allocator) Resolve(d *Demand, assignment Assignment) (Holding, error) {
	if err := assignment.Validate(); err != nil {
		return Holding{}, err
	}
	return a.resolveValid(d, assignment)
}

// resolveValid is [Allocator.Resolve] of an assignment that is valid.
func (a *Allocator) resolveValid(d *Demand, assignment Assignment) (Holding, error) {
	if len(assignment) != len(d.Containers) {
		return Holding{}, fmt.Errorf("%d containers have devices, %d ask for them", len(assignment), len(d.Containers))
	}
	r := assignmentResolver{allocator: a, demand: d, missing: map[string]int{}}
	for i := range d.Containers {
		if err := r.resolveContainer(i, assignment[d.Containers[i].Name]); err != nil {
			return Holding{}, fmt.Errorf("container %s: %w", d.Containers[i].Name, err)
		}
	}
	return r.buildHolding()
}

// assignmentResolver collects the devices of a pod. Devices that the inventory does not have get positions after its GPUs, so that they are checked like the
// others.
type assignmentResolver struct {
	allocator  *Allocator
	demand     *Demand
	missing    map[string]int
	shareMiB   int64
	containers [MaxContainers]devices
}

// devices are the GPUs of one container. They are sets of int positions: two inventories together can
// have more GPUs than a Set has bits.
type devices struct{ whole, shared map[int]bool }

func (r *assignmentResolver) resolveContainer(i int, assigned []Device) error {
	asked := &r.demand.Containers[i]
	held := devices{whole: map[int]bool{}, shared: map[int]bool{}}
	for _, device := range assigned {
		position := r.devicePosition(device.UUID)
		if device.MemoryMiB == 0 {
			held.whole[position] = true
			continue
		}
		if r.shareMiB != 0 && r.shareMiB != device.MemoryMiB {
			return fmt.Errorf("it has %d MiB of a card and another share is %d MiB", device.MemoryMiB, r.shareMiB)
		}
		r.shareMiB = device.MemoryMiB
		held.shared[position] = true
	}
	if whole, shared := int64(len(held.whole)), int64(len(held.shared)); whole != asked.Whole || shared != asked.Shared {
		return fmt.Errorf("it has %d whole and %d shared devices, and asks for %d and %d", whole, shared, asked.Whole, asked.Shared)
	}
	r.containers[i] = held
	return r.checkExclusive(i)
}

// devicePosition returns where a device stands.
func (r *assignmentResolver) devicePosition(uuid string) int {
	if position, ok := r.allocator.positions[uuid]; ok {
		return position
	}
	position, ok := r.missing[uuid]
	if !ok {
		position = len(r.allocator.inventory.GPUs) + len(r.missing)
		r.missing[uuid] = position
	}
	return position
}

// checkExclusive finds a whole GPU of container i that an earlier container has at the same time.
func (r *assignmentResolver) checkExclusive(i int) error {
	for j := range i {
		if !r.overlapInTime(j, i) {
			continue
		}
		for position := range r.containers[i].whole {
			if r.containers[j].whole[position] {
				return fmt.Errorf("it has a whole device together with container %s", r.demand.Containers[j].Name)
			}
		}
	}
	return nil
}

// overlapInTime reports whether a container holds its GPUs while a later one does.
func (r *assignmentResolver) overlapInTime(earlier, later int) bool {
	if r.demand.Containers[later].Lifetime == Init {
		return r.demand.Containers[earlier].Lifetime == Sidecar
	}
	return r.demand.Containers[earlier].Lifetime != Init
}

// buildHolding sums up the containers.
func (r *assignmentResolver) buildHolding() (Holding, error) {
	whole, slots := map[int]bool{}, map[int]int{}
	for i := range r.demand.Containers {
		for position := range r.containers[i].whole {
			whole[position] = true
		}
		for position := range r.containers[i].shared {
			slots[position] = max(slots[position], r.slotsHeldUntil(i, position))
		}
	}
	if held := int64(len(whole)); held > r.demand.wholePeak() {
		return Holding{}, fmt.Errorf("the containers hold %d GPUs, and never ask for more than %d at once", held, r.demand.wholePeak())
	}
	return r.sumHolding(whole, slots)
}

// slotsHeldUntil returns the slots on a GPU while container i runs: its own, and those of containers that
// started before it and still run. The most over all containers is the peak.
func (r *assignmentResolver) slotsHeldUntil(i, position int) int {
	slots := 1
	for j := range i {
		if r.overlapInTime(j, i) && r.containers[j].shared[position] {
			slots++
		}
	}
	return slots
}

func (r *assignmentResolver) sumHolding(whole map[int]bool, slots map[int]int) (Holding, error) {
	holding := Holding{ShareMiB: r.shareMiB}
	cards := len(r.allocator.inventory.GPUs)
	for position := range whole {
		if slots[position] > 0 {
			return Holding{}, errors.New("a device is both whole and shared")
		}
		if position >= cards {
			holding.Unknown.Whole++
			continue
		}
		holding.Whole |= singleGPU(position)
	}
	for position, count := range slots {
		if position >= cards {
			holding.Unknown.Shared++
			holding.Unknown.ShareMiB = max(holding.Unknown.ShareMiB, int64(count)*r.shareMiB)
			continue
		}
		holding.Shared |= singleGPU(position)
		holding.slots[position] = uint8(count)
	}
	return holding, nil
}
