package oracle

import (
	"fmt"
	"slices"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// held is what a pod has of a card: all of it, or some memory at the most at any time.
type held struct {
	whole     bool
	memoryMiB int64
}

// cardsOf tells which cards a pod holds, by UUID, and compares them with what its containers ask for. No two
// containers that run at the same time may have a whole card together.
func cardsOf(demand *gpu.Demand, assignment gpu.Assignment) (map[string]held, error) {
	if err := compare(demand, assignment); err != nil {
		return nil, err
	}
	starts := make([]start, len(demand.Containers))
	for i := range demand.Containers {
		starts[i] = start{demand.Containers[i].Name, demand.Containers[i].Lifetime}
	}
	cards := map[string]held{}
	for _, running := range moments(starts) {
		now, err := together(assignment, running)
		if err != nil {
			return nil, err
		}
		for uuid, current := range now {
			before, known := cards[uuid]
			if known && before.whole != current.whole {
				return nil, fmt.Errorf("card %s is whole for one container and shared for another", uuid)
			}
			current.memoryMiB = max(current.memoryMiB, before.memoryMiB)
			cards[uuid] = current
		}
	}
	return cards, nil
}

// compare counts the devices of each container.
func compare(demand *gpu.Demand, assignment gpu.Assignment) error {
	if len(assignment) != len(demand.Containers) {
		return fmt.Errorf("%d containers have cards and %d ask for them", len(assignment), len(demand.Containers))
	}
	for i := range demand.Containers {
		container := &demand.Containers[i]
		var whole, shared int64
		for _, device := range assignment[container.Name] {
			switch device.MemoryMiB {
			case 0:
				whole++
			case demand.ShareMiB:
				shared++
			default:
				return fmt.Errorf("container %s has %d MiB of card %s and asks for %d", container.Name, device.MemoryMiB, device.UUID, demand.ShareMiB)
			}
		}
		if whole != container.Whole || shared != container.Shared {
			return fmt.Errorf("container %s has %d whole and %d shared cards, and asks for %d and %d",
				container.Name, whole, shared, container.Whole, container.Shared)
		}
	}
	return nil
}

// start is a container that has devices, and for how long.
type start struct {
	container string
	lifetime  gpu.Lifetime
}

// moments lists the containers that run at the same time: at the start of each init container, and afterwards. starts are in
// order.
func moments(starts []start) [][]string {
	var all [][]string
	var running []string // what has started and runs on
	for _, next := range starts {
		now := slices.Concat(running, []string{next.container})
		if next.lifetime == gpu.Init {
			all = append(all, now)
			continue
		}
		running = now
	}
	return append(all, running)
}

// together sums up the cards of containers that run at the same time.
func together(assignment gpu.Assignment, running []string) (map[string]held, error) {
	cards := map[string]held{}
	for _, container := range running {
		for _, device := range assignment[container] {
			before, known := cards[device.UUID]
			if known && (before.whole || device.MemoryMiB == 0) {
				return nil, fmt.Errorf("container %s has card %s together with another container", container, device.UUID)
			}
			cards[device.UUID] = held{whole: device.MemoryMiB == 0, memoryMiB: before.memoryMiB + device.MemoryMiB}
		}
	}
	return cards, nil
}
