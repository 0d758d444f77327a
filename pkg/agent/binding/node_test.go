package binding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const mig = names.ResourceMIGPrefix + "1g.10gb"

// node has four cards, A to D, one of which is sick, and two slices. Pod one is bound with cards A and B for its container
// main, and kubelet has given it slots.
func node(changes ...func(*Situation)) *Situation {
	s := &Situation{
		Claims: []checkpoint.Claim{{Pod: "one", Container: "main", Resource: names.ResourceGPU, Slots: []string{"slot-0", "slot-1"}, Name: "N1"}},
		Pods:   map[types.UID]Pod{"one": {Namespace: "team", Name: "one", Assignment: assignment("main", "A", "B")}},
		Live:   map[types.UID]map[string]bool{"one": {}},
		GPUs: map[string]GPU{
			"A": {Resource: names.ResourceGPU, Index: 0, MemoryMiB: 1000, Health: gpu.Healthy},
			"B": {Resource: names.ResourceGPU, Index: 1, MemoryMiB: 1000, Health: gpu.Healthy},
			"C": {Resource: names.ResourceGPU, Index: 2, MemoryMiB: 1000, Health: gpu.Healthy},
			"D": {Resource: names.ResourceGPU, Index: 3, MemoryMiB: 1000, Health: "Xid79"},
			"S": {Resource: names.ResourceGPU, Shared: names.ResourceSharedGPU, Index: 4, MemoryMiB: 1000, Health: gpu.Healthy},
			"M": {Resource: mig, Index: 5, MemoryMiB: 100, Health: gpu.Healthy},
			"N": {Resource: mig, Index: 5, MemoryMiB: 100, Health: gpu.Healthy},
		},
		Unassigned: Refuse,
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// assignment writes the scheduler's annotation: a container, and its cards. "S:500" is 500 MiB of S.
func assignment(container string, cards ...string) string {
	devices := gpu.Assignment{container: {}}
	for _, card := range cards {
		uuid, share, _ := strings.Cut(card, ":")
		device := gpu.Device{UUID: uuid}
		if share != "" {
			_, _ = fmt.Sscan(share, &device.MemoryMiB)
		}
		devices[container] = append(devices[container], device)
	}
	text, err := devices.Encode()
	if err != nil {
		panic(err)
	}
	return text
}

func pod(uid types.UID, text string) func(*Situation) {
	return func(s *Situation) { s.Pods[uid] = Pod{Namespace: "team", Name: string(uid), Assignment: text} }
}

// static says that kubelet runs a pod from a file, and the API server has its mirror alone.
func static(uid types.UID) func(*Situation) {
	return func(s *Situation) { s.Pods[uid] = Pod{Namespace: "team", Name: string(uid), Static: true} }
}

// decided says that our scheduler put a pod on the node.
func decided(uid types.UID) func(*Situation) {
	return func(s *Situation) {
		pod := s.Pods[uid]
		pod.Decided = true
		s.Pods[uid] = pod
	}
}

// sliceChoice writes the scheduler's annotation of a pod that has slices alone.
func sliceChoice(container string, uuids ...string) string {
	choice := gpu.Choice{Slices: gpu.SliceAssignment{}}
	for _, uuid := range uuids {
		choice.Slices[container] = append(choice.Slices[container], gpu.HeldSlice{UUID: uuid, Profile: "1g.10gb", ParentUUID: "Y", GPU: 5})
	}
	text, err := choice.Encode()
	if err != nil {
		panic(err)
	}
	return text
}

func claim(uid types.UID, container, resource, name string, slots ...string) func(*Situation) {
	return func(s *Situation) {
		s.Claims = append(s.Claims, checkpoint.Claim{Pod: uid, Container: container, Resource: resource, Slots: slots, Name: name})
	}
}

func record(uid types.UID, container, resource, name string, cards ...string) func(*Situation) {
	return func(s *Situation) {
		r := Record{Name: name, Pod: uid, Namespace: "team", PodName: string(uid), Container: container, Resource: resource}
		for _, card := range cards {
			uuid, share, _ := strings.Cut(card, ":")
			device := gpu.Device{UUID: uuid}
			if share != "" {
				_, _ = fmt.Sscan(share, &device.MemoryMiB)
			}
			r.Devices, r.All = append(r.Devices, device), append(r.All, uuid)
		}
		s.Records = append(s.Records, r)
	}
}

// live says that the runtime has not ended a pod, and which of its containers run.
func live(uid types.UID, running ...string) func(*Situation) {
	return func(s *Situation) {
		s.Live[uid] = map[string]bool{}
		for _, container := range running {
			s.Live[uid][container] = true
		}
	}
}

func ended(uid types.UID) func(*Situation)  { return func(s *Situation) { delete(s.Live, uid) } }
func silent(uid types.UID) func(*Situation) { return func(s *Situation) { delete(s.Pods, uid) } }
func policy(p Policy) func(*Situation)      { return func(s *Situation) { s.Unassigned = p } }

// sliceOf makes a device a slice of a card.
func sliceOf(uuid, card string) func(*Situation) {
	return func(s *Situation) {
		slice := s.GPUs[uuid]
		slice.ParentUUID, slice.Resource = card, mig
		s.GPUs[uuid] = slice
	}
}

// decisions are calls and what is decided, by what they are about.
type decisions map[string]struct {
	node *Situation
	// resource and slots of the call; those of pod one when they are not given.
	resource string
	slots    []string
	// want are "container: cards" of the records, wantRemoved names of records to remove, and wantReason why there are none.
	want, wantRemoved []string
	wantReason        Reason
	wantText          string
}

func (all decisions) check(t *testing.T) {
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			resource, slots := tc.resource, tc.slots
			if resource == "" {
				resource = names.ResourceGPU
			}
			if slots == nil {
				slots = []string{"slot-0", "slot-1"}
			}
			outcome, refusal := tc.node.Decide(resource, slots)
			if diff := cmp.Diff(tc.want, spell(outcome.Write)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRemoved, outcome.Remove); diff != "" {
				t.Errorf("removed records (-want +got):\n%s", diff)
			}
			switch {
			case (refusal == nil) != (tc.wantReason == ""):
				t.Errorf("refusal is %v, want reason %q", refusal, tc.wantReason)
			case refusal != nil && (refusal.Reason != tc.wantReason || !strings.Contains(refusal.Text, tc.wantText)):
				t.Errorf("refused with %s, %q; want %s, …%s…", refusal.Reason, refusal.Text, tc.wantReason, tc.wantText)
			case refusal != nil && !slices.Contains(Reasons, refusal.Reason):
				t.Errorf("reason %s is not listed", refusal.Reason)
			}
		})
	}
}

func spell(records []Record) []string {
	var lines []string
	for i := range records {
		line := records[i].Container + " " + records[i].Name + ":"
		for _, device := range records[i].Devices {
			line += " " + device.UUID
			if device.MemoryMiB > 0 {
				line += fmt.Sprintf(":%d", device.MemoryMiB)
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}
