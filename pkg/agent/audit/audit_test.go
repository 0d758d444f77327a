package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const gpus = "nvidia.com/gpu"

// agreeing is a node with two pods, a and b, each with a container that runs with a card of its own.
func agreeing() *Situation {
	s := &Situation{Pods: map[types.UID]binding.Pod{}, Live: map[types.UID]map[string]bool{}}
	for i, name := range []string{"a", "b"} {
		uid, slot := types.UID("uid-"+name), []string{[]string{"slot-0", "slot-1"}[i]}
		s.Pods[uid] = binding.Pod{Namespace: "team", Name: name}
		s.Live[uid] = map[string]bool{"main": true}
		s.Listed = append(s.Listed, Listed{Namespace: "team", Pod: name, Container: "main", Resource: gpus, Slots: slot})
		s.Claims = append(s.Claims, checkpoint.Claim{Pod: uid, Container: "main", Resource: gpus, Slots: slot, Name: "device-" + name})
		s.Records = append(s.Records, binding.Record{
			Name: "device-" + name, Pod: uid, Namespace: "team", PodName: name, Container: "main", Resource: gpus,
			Devices: []gpu.Device{{UUID: "GPU-" + name, Index: i}},
		})
	}
	return s
}

// chosen has the scheduler choose a card for a container of pod a.
func chosen(s *Situation, container string) {
	pod := s.Pods["uid-a"]
	pod.Assignment = `{"version":1,"containers":{"` + container + `":[{"uuid":"GPU-a","index":0}]}}`
	s.Pods["uid-a"] = pod
}

func TestDifferences(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Situation)
		want   []Kind
	}{
		"all agrees":                                          {func(*Situation) {}, nil},
		"the checkpoint was not written":                      {func(s *Situation) { s.Claims = s.Claims[1:] }, []Kind{Unclaimed}},
		"the checkpoint is an old one":                        {func(s *Situation) { s.Claims[0].Slots = []string{"slot-7"} }, []Kind{OtherSlots}},
		"a claim of another resource":                         {func(s *Situation) { s.Claims[0].Resource = "g8s.host/shared-gpu" }, []Kind{Unclaimed}},
		"a record was removed":                                {func(s *Situation) { s.Records = s.Records[:1] }, []Kind{Unrecorded}},
		"a record of another pod":                             {func(s *Situation) { s.Records[0].Pod = "uid-c" }, []Kind{Unrecorded}},
		"a record with a card too few":                        {func(s *Situation) { s.Records[0].Devices = nil }, []Kind{Miscounted}},
		"a container that does not run yet":                   {func(s *Situation) { s.Records, s.Live["uid-a"]["main"], s.Live["uid-b"] = nil, false, nil }, nil},
		"a pod of which only kubelet knows":                   {func(s *Situation) { delete(s.Pods, "uid-a"); s.Claims = nil }, []Kind{Unclaimed}},
		"a kubelet that lists nothing":                        {func(s *Situation) { s.Listed, s.Records = nil, s.Records[:1] }, []Kind{Unrecorded}},
		"a container without its cards":                       {func(s *Situation) { chosen(s, "main"); s.Listed, s.Claims, s.Records = nil, nil, nil }, []Kind{Forgotten}},
		"a container without any":                             {func(s *Situation) { chosen(s, "other"); s.Live["uid-a"]["side"] = true }, nil},
		"a container with its cards":                          {func(s *Situation) { chosen(s, "main") }, nil},
		"a container with a slice that kubelet has forgotten": {func(s *Situation) { s.Listed, s.Claims = s.Listed[1:], s.Claims[1:] }, []Kind{Forgotten}},
		"a container that kubelet has forgotten": {func(s *Situation) {
			chosen(s, "main")
			s.Listed, s.Claims, s.Records = nil, nil, nil
		}, []Kind{Forgotten}},
		"a container whose slice kubelet has forgotten": {func(s *Situation) {
			pod := s.Pods["uid-a"]
			pod.Assignment = `{"version":1,"slices":{"main":[{"uuid":"MIG-a","profile":"1g.10gb","card":"GPU-0","gpu":0}]}}`
			s.Pods["uid-a"] = pod
			s.Listed, s.Claims, s.Records = nil, nil, nil
		}, []Kind{Forgotten}},
		"a pod that kubelet has forgotten": {func(s *Situation) { s.Listed = nil }, nil},
		"one card for both":                {func(s *Situation) { s.Records[1].Devices = s.Records[0].Devices }, []Kind{GPUTwice}},
		"one card, and one does not run":   {func(s *Situation) { s.Records[1].Devices, s.Live["uid-b"] = s.Records[0].Devices, nil }, nil},
		"one card for two containers of one": {func(s *Situation) {
			s.Records[1].Devices, s.Records[1].Pod, s.Claims[1].Pod, s.Listed = s.Records[0].Devices, "uid-a", "uid-a", nil
		}, nil},
		"a card that they share": {func(s *Situation) {
			s.Records[0].Devices[0].MemoryMiB = 100
			s.Records[1].Devices = s.Records[0].Devices
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := agreeing()
			tc.change(s)
			var kinds []Kind
			for _, difference := range FindDifferences(s) {
				kinds = append(kinds, difference.Kind)
				if difference.Text == "" || difference.Namespace != "team" || difference.Name == "" {
					t.Errorf("nobody can do anything with %+v", difference)
				}
			}
			if diff := cmp.Diff(tc.want, kinds); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgain(t *testing.T) {
	first := []Difference{{Kind: Unclaimed, Pod: "a", Text: "1"}, {Kind: Unclaimed, Pod: "b"}}
	then := []Difference{{Kind: Unclaimed, Pod: "a", Text: "2"}, {Kind: Miscounted, Pod: "b"}}
	if diff := cmp.Diff(then[:1], RepeatedDifferences(first, then)); diff != "" {
		t.Errorf("again (-want +got):\n%s", diff)
	}
}
