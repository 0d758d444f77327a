// Package binding decides which cards a container gets, or why it must not start. It is pure: all that is known of the
// node at one moment goes in as a value, and records of who holds what come out.
//
// kubelet only counts. Its devices are slots that stand for no card, and it says with PreStartContainer which slots the
// container has that it is about to create. The scheduler's word on the pod says which cards these are. Whatever does not
// fit together is refused, so that the container does not start: nobody ever gets a card that was not meant for them.
package binding

import (
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Situation is what is known of a node.
type Situation struct {
	// Claims are the containers that have slots, by kubelet's checkpoint: of all resources of the agent.
	Claims []checkpoint.Claim
	// Pods are those that the API server has bound to the node.
	Pods map[types.UID]Pod
	// Records are what the containers of the node hold. They were read before Live, so that the pod of a record which Live
	// does not have has ended.
	Records []Record
	// Live are the pods that the runtime has not ended, with the containers of each that run. The runtime's word counts
	// here, and neither kubelet's nor the API server's: a pod that was deleted by force is gone for both while its
	// processes still use the cards.
	Live map[types.UID]map[string]bool
	// Cards are the node's cards and slices, by UUID.
	Cards map[string]Card
	// Unassigned is what becomes of pods that the scheduler chose no cards for.
	Unassigned Policy
}

// Pod is what the API server says of a pod.
type Pod struct {
	Namespace, Name string
	// Assignment is the scheduler's annotation g8s.host/gpu-devices, "" for none.
	Assignment string
	// Decided tells that our scheduler put the pod here, whether or not it chose devices.
	Decided bool
	// Deleting tells that the pod is to end.
	Deleting bool
}

// Card is a card or a slice that can be given out.
type Card struct {
	// Resource is what a container asks for to get it whole.
	Resource string
	// Shared is what a container asks for to get a part of its memory, "" where it is not shared.
	Shared string
	// Card is the card that a slice is of, "" for a whole card.
	Card string
	// Index is the driver's number of the card, for people, and the order in which the agent gives cards out.
	Index int
	// MemoryMiB is all of its memory.
	MemoryMiB int64
	// Health is [gpu.Healthy], or one word for what is wrong.
	Health string
}

// Policy is what becomes of pods that ask for whole cards or MIG slices and that the scheduler chose none for. Slices of a pod that our
// scheduler put here are chosen whatever the policy: one that is older than the agent, or that did not know of them yet, counts them.
type Policy string

const (
	// Refuse lets them not start.
	Refuse Policy = "refuse"
	// GiveFree gives them healthy ones that nobody holds, and that the scheduler has promised to no other pod.
	GiveFree Policy = "free"
)

// Record is which cards a container holds.
type Record struct {
	// Name is the CDI device that stands for the cards, less the kind.
	Name      string       `json:"name"`
	Pod       types.UID    `json:"pod"`
	Namespace string       `json:"namespace"`
	PodName   string       `json:"podName"`
	Container string       `json:"container"`
	Resource  string       `json:"resource"`
	Devices   []gpu.Device `json:"devices"`
	// All are the UUIDs of all devices of the container, of whatever resource: what its environment says.
	All []string `json:"all"`
}

// UUIDs returns the devices of a record.
func (r *Record) UUIDs() []string { return uuidsOf(r.Devices) }

func uuidsOf(devices []gpu.Device) []string {
	uuids := make([]string, len(devices))
	for i := range devices {
		uuids[i] = devices[i].UUID
	}
	return uuids
}

// Ended returns the records whose pod the runtime no longer has.
func (s *Situation) Ended() []Record {
	var ended []Record
	for i := range s.Records {
		if _, live := s.Live[s.Records[i].Pod]; !live {
			ended = append(ended, s.Records[i])
		}
	}
	return ended
}
